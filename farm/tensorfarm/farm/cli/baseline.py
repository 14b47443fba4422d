"""``farm baseline``: what artifacts are compared with, and a person's say in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tensorfarm.contract.digest import finite
from tensorfarm.farm.app.baselines import accept, baselines, pin
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.rows import print_rows

application = typer.Typer(help="What artifacts are compared with.", no_args_is_help=True)
_COLUMNS = ("workload", "baseline", "artifact", "of eager", "since", "by", "reason")


@application.command("list")
def listed(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Each workload's last accepted artifact and its pinned anchor."""
    rows = baselines(store)
    if as_json:
        print(json.dumps(finite(rows), default=str))
        return
    print_rows(screen(markup=False), _COLUMNS, [_texts(row) for row in rows])


@application.command("accept")
def accepted(
    candidate: Annotated[str, typer.Argument(help="Candidate id, or its beginning.")],
    because: Annotated[str, typer.Option("--because", help="Why its speed is meant.")],
    store: Store = DEFAULT_STORE,
) -> None:
    """Compare with CANDIDATE from now on, slower or not; its open regressions are closed."""
    _say("accepted", accept(store, candidate, because))


@application.command("pin")
def pinned(
    name: Annotated[str, typer.Argument(metavar="CANDIDATE|SWEEP", help="Candidate id, or a sweep for all its cells.")],
    store: Store = DEFAULT_STORE,
) -> None:
    """Pin the anchor, which stays until it is pinned again, however the last accepted artifacts creep."""
    _say("pinned", pin(store, name))


def _texts(row: dict[str, Any]) -> dict[str, str]:
    values = (
        row["workload"],
        row["kind"],
        row["artifact_sha256"][:12],
        f"{row['ratio_to_eager']:.3f}",
        f"{row['since']:%Y-%m-%d %H:%M}",
        row["accepted_by"],
        row["reason"],
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _say(done: str, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{done} {row['artifact_sha256'][:12]} for {row['workload']}")


def register(parent: typer.Typer) -> None:
    parent.add_typer(application, name="baseline")
