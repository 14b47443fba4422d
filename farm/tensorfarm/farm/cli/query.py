"""``farm query``: SQL over the store's tables."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tensorfarm.farm.app.reading import moment, query_store
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, AsOf, Store
from tensorfarm.farm.cli.screen import screen


def query(
    sql: Annotated[str, typer.Argument(help="DuckDB SQL over events, candidates, artifacts, manifests, verdicts, …")],
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Run SQL over the store, read-only. Tables: docs/tables.md, or "show tables"."""
    result = query_store(store, sql, moment(as_of))
    if as_json:
        print(json.dumps(result.to_pylist(), default=str))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in result.column_names:
        table.add_column(name, overflow="fold")
    for row in result.to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    screen(markup=False).print(table)


def register(application: typer.Typer) -> None:
    application.command("query")(query)
