"""``farm store``: looks after the store itself."""

from __future__ import annotations

import json

import typer

from tensorfarm.farm.app.reading import check_store
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store

application = typer.Typer(help="Looks after the store itself.", no_args_is_help=True)


@application.callback()
def stores() -> None:
    """Looks after the store itself."""


@application.command("fsck")
def fsck(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Look for doubled events, rows of unknown events and damaged files. Exit code 1 where there is a finding."""
    findings = check_store(store)
    print(json.dumps(findings) if as_json else "\n".join(findings) or f"{store} is whole")
    raise typer.Exit(1 if findings else 0)


def register(parent: typer.Typer) -> None:
    parent.add_typer(application, name="store")
