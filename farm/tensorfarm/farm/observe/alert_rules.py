"""The rules file of Prometheus, written from the table of alerts."""

from __future__ import annotations

from typing import Any

import yaml

from tensorfarm.farm.observe.alerts import ALERTS, Alert
from tensorfarm.farm.observe.conditions import Read

_HEADER = """\
# Written from farm/tensorfarm/farm/observe/alerts.py (pytest tests/observe --rewrite-goldens): change it there.
# Every gauge is read as its last sample within a day, so that an exporter that dies resolves nothing.
"""


def rules_text(pace: float = 1.0) -> str:
    """The rules file. ``pace`` scales every hold time: 1 is for production, 1/300 makes seconds of minutes."""
    by_backend = f"sum by (backend, device_class) ({Read('farm_open_regressions').promql()})"
    state = {"record": "backend_device:farm_open_regressions:sum", "expr": by_backend}
    document = {
        "groups": [
            {"name": "farm-state", "rules": [state]},
            {"name": "farm-alerts", "rules": [_rule(alert, pace) for alert in ALERTS]},
        ]
    }
    return _HEADER + yaml.safe_dump(document, sort_keys=False, width=120)


def _rule(alert: Alert, pace: float) -> dict[str, Any]:
    hold = round(alert.hold_seconds * pace)
    return {
        "alert": alert.name,
        "expr": alert.condition.promql(),
        **({"for": _duration(hold)} if hold else {}),
        "labels": {"severity": str(alert.severity)},
        "annotations": {"summary": alert.says, "next_step": alert.next_step},
    }


def _duration(seconds: int) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
