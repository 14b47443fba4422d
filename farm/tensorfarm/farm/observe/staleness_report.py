"""Which answers should be found out again, and why: every workload's newest candidate with its set of reasons.

Invariant: staleness is a set. An empty one is fresh, and nothing but an empty one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorfarm.farm.observe.presentation import Column, Kind, Presentation, Row, days


def staleness_report(rows: Sequence[Row], limit_days: float) -> Presentation:
    """``rows`` have workload, reasons (sorted words), the ages in days (None where there is nothing), candidate, bytes.

    What has most reasons comes first.
    """
    ordered = sorted(rows, key=lambda row: (-len(row["reasons"]), row["workload"]))
    counts = Counter(reason for row in rows for reason in row["reasons"])
    stale = sum(bool(row["reasons"]) for row in rows)
    summary = [f"{stale} of {len(rows)} workloads are stale" if stale else f"all {len(rows)} workloads are fresh"]
    summary += [f"{number} {reason}" for reason, number in counts.most_common()]
    totals = {"workloads": len(rows), "stale": stale, "limit_days": limit_days, "reasons": dict(counts)}
    return Presentation(Kind.STALENESS, "Staleness", ordered, _COLUMNS, summary, totals)


def _age(name: str, row: Row) -> str:
    return "none" if row[name] is None else days(row[name])


_COLUMNS = (
    Column("workload", lambda row: row["workload"], is_number=False, folds=True),
    Column("measured", lambda row: _age("measurement_days", row), 1),
    Column("baseline", lambda row: _age("baseline_days", row), 2),
    Column("model", lambda row: _age("model_days", row), 3),
    Column("candidate", lambda row: row["candidate_id"][:12], 4, is_number=False),
    Column("stale because", lambda row: ", ".join(row["reasons"]) or "fresh", is_number=False, folds=True),
)
