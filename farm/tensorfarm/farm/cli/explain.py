"""``farm explain``: why two artifacts differ."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Annotated

import typer

from tensorfarm.farm.app.explain import Explanation, explain
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store

_MOST_LINES = 12  # of one aspect


def explain_command(
    a: Annotated[str, typer.Argument(help="Artifact or candidate (first digits), SWEEP_ID:CELL, or a .artifact file.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Say why artifacts A and B differ: request, passes and sites, kernels, graphs, bytes. The cause comes first."""
    found = explain(store, a, b)
    print(json.dumps(found.as_json()) if as_json else "\n".join(_lines(found)))


def _lines(found: Explanation) -> list[str]:
    lines = [found.cause, f"a is {found.a[:12]}, b is {found.b[:12]}"]
    for aspect, group in groupby(found.differences, key=lambda item: item.aspect):
        items = list(group)
        names = [str(aspect) if item.name == aspect else f"{aspect} {item.name}" for item in items]
        lines += [f"{name}: {item.a} → {item.b}" for name, item in zip(names[:_MOST_LINES], items, strict=False)]
        if len(items) > _MOST_LINES:
            lines.append(f'{aspect}: {len(items) - _MOST_LINES} more ("--json" lists them)')
    return lines


def register(application: typer.Typer) -> None:
    application.command("explain")(explain_command)
