"""Answers from the store: reports and queries, as of now or of any time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import finite
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.observe.wall_time import Span, shares
from tensorfarm.farm.store.fsck import fsck
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.tables import ArrowTable


@dataclass(frozen=True)
class SweepReport:
    """``cells`` are rows of the query ``report_sweep`` in the order of the sweep file, not begun ones included.

    ``seconds`` is the wall time by stage; what no job was running in is the ``rest``.
    """

    sweep_id: str
    cells: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        return finite(asdict(self))


def moment(text: str | None) -> datetime | None:
    """A ``--as-of`` time. Refuses what is not ISO 8601; a time without a zone is UTC."""
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(
            f"{text!r} is no time",
            limit="ISO 8601, such as 2026-05-01T12:00:00",
            next_step="correct --as-of",
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def sweep_report(store: Path, sweep_id: str = "", as_of: datetime | None = None) -> SweepReport:
    """The report of one sweep, the newest where no id is given. Refuses an unknown id and an empty store.

    A run of ``farm bisect`` is shown where it is named; it is never the newest sweep.
    """
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        rows = reader.named("sweeps").to_pylist()
        known = [row["sweep_id"] for row in rows if not row["experiment"]]
        experiments = [row["sweep_id"] for row in rows if row["experiment"]]
        if not known and not sweep_id:
            when = "" if as_of is None else f" before {as_of.isoformat()}"
            limit = f"only bisections by hand, to be named: {', '.join(experiments[:5])}" if experiments else ""
            raise Refusal(f"store {store} holds no sweep{when}", limit=limit, next_step='run "farm sweep CONFIG" first')
        chosen = sweep_id or known[0]
        if chosen not in (*known, *experiments):
            raise Refusal(
                f"sweep {chosen!r} is not in {store}",
                limit=f"newest there: {', '.join((known or experiments)[:5]) or 'none'}",
                next_step="name one of them, or none for the newest",
            )
        cells = _in_file_order(reader, chosen)
        spans = [Span(**row) for row in reader.named("sweep_spans", sweep_id=chosen).to_pylist()]
    whole = next(span for span in spans if span.stage == "sweep")
    return SweepReport(chosen, cells, shares([span for span in spans if span is not whole], whole))


def _in_file_order(reader: Reader, sweep_id: str) -> list[dict[str, Any]]:
    """Rows of ``report_sweep``, one for every cell of the plan; a cell that has not begun has nothing but its name."""
    table = reader.named("report_sweep", sweep_id=sweep_id)
    known = {row["subject"]: row for row in table.to_pylist()}
    config = json.loads(reader.named("sweep_config", sweep_id=sweep_id).to_pylist()[0]["config"])
    found: list[dict[str, Any]] = []
    for program in config["programs"]:
        for pipeline in program["pipelines"]:
            subject = f"{program['name']}/{pipeline}"
            blank = dict.fromkeys(table.column_names) | {"program": program["name"], "pipeline": pipeline}
            found.append(known.get(subject, blank | {"subject": subject}))
    return found


def query_store(store: Path, sql: str, as_of: datetime | None = None) -> ArrowTable:
    """Run read-only SQL over the store's tables. Refuses SQL that does not run, in one line."""
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        return reader.query(sql)


def check_store(store: Path) -> list[str]:
    """What is wrong with the store, a line each; empty where it is whole. Refuses a store that is not there."""
    return fsck(StoreLayout(store).existing())
