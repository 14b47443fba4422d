"""Answers from the store: reports and queries, as of now or of any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.tables import ArrowTable


@dataclass(frozen=True)
class SweepReport:
    """``cells`` are rows of the query ``report_sweep``; ``times`` the row of ``sweep_times``, in seconds."""

    sweep_id: str
    cells: Sequence[Mapping[str, Any]]
    times: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


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
    """The report of one sweep, the newest where no id is given. Refuses an unknown id and an empty store."""
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        known = [row["sweep_id"] for row in reader.named("sweeps").to_pylist()]
        if not known:
            raise Refusal(f"store {store} holds no sweep", next_step='run "farm sweep CONFIG" first')
        chosen = sweep_id or known[0]
        if chosen not in known:
            raise Refusal(
                f"sweep {chosen!r} is not in {store}",
                limit=f"newest there: {', '.join(known[:5])}",
                next_step="name one of them, or none for the newest",
            )
        cells = reader.named("report_sweep", sweep_id=chosen).to_pylist()
        times = reader.named("sweep_times", sweep_id=chosen).to_pylist()[0]
    return SweepReport(chosen, cells, times)


def query_store(store: Path, sql: str, as_of: datetime | None = None) -> ArrowTable:
    """Run read-only SQL over the store's tables. Refuses SQL that does not run, in one line."""
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        return reader.query(sql)
