"""``farm doctor``: is this machine able to run a sweep, and if not, what to do."""

from __future__ import annotations

import json

import typer
from rich.markup import escape

from tensorfarm.farm.app.examination import examine
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen


def doctor(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Check interpreter, torch, C++ compiler, Ray, store and disk. Exit code 2 where anything is wrong."""
    findings = examine(store)
    if as_json:
        print(json.dumps([vars(finding) for finding in findings]))
    else:
        console = screen()
        for finding in findings:
            mark = "[green]ok[/]   " if finding.healthy else "[red]wrong[/]"
            advice = f"; {finding.advice}" if finding.advice else ""
            console.print(f"{mark} {finding.what}: {escape(finding.seen + advice)}")
    raise typer.Exit(0 if all(finding.healthy for finding in findings) else 2)


def register(application: typer.Typer) -> None:
    application.command("doctor")(doctor)
