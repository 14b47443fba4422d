"""``farm bisect``: from a candidate that the gate refuses to the decision that breaks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tensorfarm.bisect.result import Status
from tensorfarm.contract.outcome import Outcome
from tensorfarm.farm.app.bisect import BisectRequest, run_bisect
from tensorfarm.farm.app.sweep import Watch
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.bisection_table import print_bisection
from tensorfarm.farm.observe.progress import LiveProgress


def bisect(
    what: Annotated[str, typer.Argument(metavar="CANDIDATE|MODULE", help="Candidate id, or package.module:factory.")],
    width: Annotated[int, typer.Option("--width", min=1, max=64, help="Probes of a round, run at once.")] = 2,
    pipeline: Annotated[str, typer.Option("--pipeline", help="Of a MODULE: what it is compiled with.")] = "",
    contract: Annotated[Path | None, typer.Option("--contract", help="Of a MODULE: numerical contract.")] = None,
    ir_contract: Annotated[
        Path | None, typer.Option("--ir-contract", help="Of a MODULE: strict when left out.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="Of a MODULE: inference or training.")] = "inference",
    python_path: Annotated[
        list[Path] | None, typer.Option("--python-path", help="Of a MODULE: folder with its code and passes.")
    ] = None,
    store: Store = DEFAULT_STORE,
    address: Annotated[str | None, typer.Option("--address", help="Ray cluster; this machine when left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the pass and the site that break CANDIDATE. Exits with 0 where one is confirmed, 17 where none is."""
    console = screen(stderr=as_json)
    request = BisectRequest(store, what, width, pipeline, contract, ir_contract, mode, python_path or (), address)
    with LiveProgress(console) as progress:
        watch = Watch(lambda state: progress.began(state.sweep_id, state.n_cells, len(state.ended)), progress.saw)
        result, report = run_bisect(request, watch)
    if report.note:
        console.print(report.note, markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps(report.as_json(), default=str))
    elif result.finished:
        print_bisection(console, report.finished, report.steps, store)
    else:
        where = "" if store == DEFAULT_STORE else f" --store {store}"
        console.print(f'stopped; go on with "farm sweep --resume --sweep-id {result.sweep_id}{where}"')
        raise typer.Exit(result.exit_code)
    confirmed = report.finished.get("status") == Status.CONFIRMED
    raise typer.Exit(0 if confirmed else Outcome.UNDECIDED.exit_code)


def register(application: typer.Typer) -> None:
    application.command("bisect")(bisect)
