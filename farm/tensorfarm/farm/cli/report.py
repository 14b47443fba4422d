"""``farm report``: what the store knows, as tables, as JSON, or as one page that stands alone.

What only one report needs is imported inside it: torch for staleness, scipy for costs, matplotlib for a page.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.reading import moment, sweep_report
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, AsOf, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.presentation import Presentation
from tensorfarm.farm.observe.report_table import print_report
from tensorfarm.farm.observe.sweep_table import print_sweep

application = typer.Typer(help="Reports over the store.", no_args_is_help=True)

SweepId = Annotated[str, typer.Argument(help="Sweep id; the newest when left out.")]
# A text: the path of an empty one would be the working directory.
Html = Annotated[str | None, typer.Option("--html", help="Write one stand-alone page with plots to this file.")]


@application.callback()
def reports() -> None:
    """Reports over the store."""


@application.command("sweep")
def sweep(sweep_id: SweepId = "", store: Store = DEFAULT_STORE, as_of: AsOf = None, as_json: AsJson = False) -> None:
    """One row a cell: outcome, worst error against its limit, times, artifact."""
    report = sweep_report(store, sweep_id, moment(as_of))
    if as_json:
        print(json.dumps(report.as_json(), default=str))
    else:
        console = screen()
        console.print(f"sweep {report.sweep_id}", markup=False)
        print_sweep(console, report.cells, report.seconds, store)


@application.command("cost")
def cost(store: Store = DEFAULT_STORE, as_of: AsOf = None, as_json: AsJson = False, html: Html = None) -> None:
    """One row a prediction: what was predicted, with its interval, and what was measured after it."""
    from tensorfarm.farm.app.reports import costs

    when = moment(as_of)
    _deliver(costs(store, when), as_json, html, store, when)


@application.command("budget")
def budget(
    sweep_id: SweepId = "",
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """One row a cell: what it might spend, what it spent, and after how many calls that has paid for itself."""
    from tensorfarm.farm.app.reports import budgets

    when = moment(as_of)
    _deliver(budgets(store, sweep_id, when), as_json, html, store, when)


@application.command("staleness")
def staleness(
    older_than: Annotated[
        float, typer.Option("--older-than", min=0.0, help="Days after which a measurement or a model is stale.")
    ] = 7.0,
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """One row a workload: every reason why what is known of it should be found out again."""
    from tensorfarm.farm.app.staleness import staleness as stale

    when = moment(as_of)
    _deliver(stale(store, older_than, when), as_json, html, store, when)


@application.command("regressions")
def regressions(
    every: Annotated[bool, typer.Option("--all", help="Fixed and dismissed ones too.")] = False,
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """One row a regression: how much slower, how sure that is, since when, and what did it."""
    from tensorfarm.farm.app.reports import regressions as known

    when = moment(as_of)
    _deliver(known(store, every=every, as_of=when), as_json, html, store, when)


def _deliver(report: Presentation, as_json: bool, html: str | None, store: Path, as_of: datetime | None) -> None:
    """The page where one was asked for, and the table or the JSON."""
    if html == "":
        raise Refusal("--html needs a file", limit="it was given nothing", next_step="name one, such as report.html")
    if html is not None:
        from tensorfarm.farm.app.report_page import write_page

        write_page(Path(html), report, store, as_of)
    if as_json:
        print(json.dumps(report.as_json(), default=str))
    else:
        print_report(screen(markup=False), report)
    if html is not None:
        print(f"page: {html}", file=sys.stderr if as_json else sys.stdout)


def register(parent: typer.Typer) -> None:
    parent.add_typer(application, name="report")
