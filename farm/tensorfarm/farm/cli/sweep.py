"""``farm sweep``: run a sweep file, or go on with a sweep that was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tensorfarm.farm.app.reading import sweep_report
from tensorfarm.farm.app.sweep import SweepRequest, Watch, run_sweep
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.progress import LiveProgress
from tensorfarm.farm.observe.sweep_table import print_sweep


def sweep(
    config: Annotated[Path | None, typer.Argument(help="Sweep file (docs/sweep.md).")] = None,
    store: Store = DEFAULT_STORE,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last unfinished sweep.")] = False,
    sweep_id: Annotated[str, typer.Option("--sweep-id", help="Which unfinished sweep to resume.")] = "",
    address: Annotated[str | None, typer.Option("--address", help="Ray cluster; this machine when left out.")] = None,
    lock: Annotated[
        Path | None, typer.Option("--lock", help="Lock file of approved programs; CONFIG's own when left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile, gate and measure every program of CONFIG under every pipeline. The exit code is the worst outcome's."""
    console = screen(stderr=as_json)
    request = SweepRequest(store, config, lock, resume or bool(sweep_id), sweep_id, address)
    with LiveProgress(console) as progress:
        watch = Watch(lambda state: progress.began(state.sweep_id, state.n_cells, len(state.ended)), progress.saw)
        result = run_sweep(request, watch)
    where = "" if store == DEFAULT_STORE else f" --store {store}"
    report = sweep_report(store, result.sweep_id)
    if as_json:
        print(json.dumps(report.as_json(), default=str))
    else:
        print_sweep(console, report.cells, report.seconds, store)
    if not result.finished:
        console.print(f'stopped; go on with "farm sweep --resume --sweep-id {result.sweep_id}{where}"')
    else:
        console.print(
            f'results: {store}; again: "farm report sweep{where}"; ask: "farm query SQL{where}" (docs/tables.md)'
        )
    raise typer.Exit(result.exit_code)


def register(application: typer.Typer) -> None:
    application.command("sweep")(sweep)
