"""``farm query``: SQL over the store's tables."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tensorfarm.contract.digest import finite
from tensorfarm.farm.app.reading import moment, query_store
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, AsOf, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.rows import print_rows


def query(
    sql: Annotated[str, typer.Argument(help="DuckDB SQL over events, candidates, artifacts, manifests, verdicts, …")],
    store: Store = DEFAULT_STORE,
    as_of: AsOf = None,
    as_json: AsJson = False,
) -> None:
    """Run SQL over the store, read-only. Tables: docs/tables.md, or "show tables"."""
    result = query_store(store, sql, moment(as_of))
    if as_json:
        print(json.dumps(finite(result.to_pylist()), default=str))
        return
    rows = [{name: "" if value is None else str(value) for name, value in row.items()} for row in result.to_pylist()]
    print_rows(screen(markup=False), result.column_names, rows)


def register(application: typer.Typer) -> None:
    application.command("query")(query)
