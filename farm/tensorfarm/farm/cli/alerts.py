"""``farm alerts``: what Prometheus would fire, without Prometheus."""

from __future__ import annotations

import json

import typer

from tensorfarm.farm.app.alerting import alerts_now
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.alerts import Firing, exit_code
from tensorfarm.farm.observe.rows import print_rows

_COLUMNS = ("severity", "alert", "about", "value", "next")


def alerts(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Evaluate every alert over the store as it is now. Exit code 20 where a page fires, 21 where only tickets do."""
    found = alerts_now(store)
    if as_json:
        print(json.dumps([_as_json(item) for item in found]))
    elif found:
        print_rows(screen(markup=False), _COLUMNS, [_row(item) for item in found])
    else:
        print("no alert")
    raise typer.Exit(exit_code(found))


def _row(item: Firing) -> dict[str, str]:
    about = ", ".join(f"{label} {value}" for label, value in item.labels)
    values = (str(item.alert.severity), item.alert.name, about, f"{item.value:.4g}", item.alert.next_step)
    return dict(zip(_COLUMNS, values, strict=True))


def _as_json(item: Firing) -> dict[str, object]:
    alert = item.alert
    return {
        "alert": alert.name,
        "severity": str(alert.severity),
        "labels": dict(item.labels),
        "value": item.value,
        "summary": alert.says,
        "next_step": alert.next_step,
    }


def register(application: typer.Typer) -> None:
    application.command("alerts")(alerts)
