"""``farm report``: what the store knows, as tables."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tensorfarm.farm.app.reading import moment, sweep_report
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, AsOf, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.sweep_table import print_sweep

application = typer.Typer(help="Reports over the store.", no_args_is_help=True)


@application.callback()
def reports() -> None:
    """Reports over the store."""


@application.command("sweep")
def sweep(
    sweep_id: Annotated[str, typer.Argument(help="Sweep id; the newest when left out.")] = "",
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """One row a cell: outcome, worst error against its limit, times, artifact."""
    report = sweep_report(store, sweep_id, moment(as_of))
    if as_json:
        print(json.dumps(report.as_json(), default=str))
    else:
        console = screen()
        console.print(f"sweep {report.sweep_id}")
        print_sweep(console, report.cells, report.seconds)


def register(parent: typer.Typer) -> None:
    parent.add_typer(application, name="report")
