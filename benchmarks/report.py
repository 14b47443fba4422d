"""How a benchmark ends: a table of goals, a JSON file that can be compared later, and exit code 1 on a miss.

Invariant: a figure is never kept without the machine, the versions and the day it was measured on.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = ("torch", "triton", "ray", "duckdb", "deltalake", "pyarrow", "transformers", "numpy")


@dataclass(frozen=True)
class Goal:
    """One promise and what was seen. ``goal`` says the limit in words, with its unit."""

    name: str
    goal: str
    measured: float
    met: bool


def finish(name: str, goals: Sequence[Goal], details: Mapping[str, object]) -> NoReturn:
    """Print the goals, write ``results/<name>.json`` and exit: 0 where all are met, 1 otherwise."""
    table = Table(title=f"benchmark {name}")
    for column in ("goal", "limit", "measured", "met"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for goal in goals:
        table.add_row(goal.name, goal.goal, f"{goal.measured:,.4g}", "yes" if goal.met else "NO")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "versions": {"python": platform.python_version()} | _versions(),
        "goals": [asdict(goal) for goal in goals],
        "details": dict(details),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(0 if all(goal.met for goal in goals) else 1)


def _machine() -> dict[str, object]:
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "load_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _versions() -> dict[str, str]:
    installed = {item.metadata["Name"].lower() for item in importlib.metadata.distributions()}
    return {name: importlib.metadata.version(name) for name in _PACKAGES if name in installed}
