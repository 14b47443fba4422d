"""What got slower, how sure that is, and since when. Only a confirmed regression is one; a nomination is a suspicion.

Invariant: a ratio never stands without its interval and the smallest one that the measurement could have seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorfarm.farm.observe.presentation import Column, Kind, Presentation, Row, minute, ratio


def regression_report(rows: Sequence[Row], comparisons: Sequence[Row], every: bool) -> Presentation:
    """``rows`` are of the query ``report_regressions``, ``comparisons`` of ``report_comparisons``.

    Closed ones are left out unless ``every`` one is asked for; the totals count them all.
    """
    shown = [row for row in rows if every or row["unsettled"]]
    states = Counter(row["state"] for row in rows)
    hidden = len(rows) - len(shown)
    known = ", ".join(f"{number} {state}" for state, number in states.items()) or "none was ever suspected"
    verdicts = {row["verdict"]: row["comparisons"] for row in comparisons}
    said = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    summary = [
        f"regressions: {known}" + (f'; the {hidden} closed with "--all"' if hidden else ""),
        f"paired measurements against a baseline: {said or 'none'}",
        *(f"{row['subject']}: {row['message']}" for row in shown if row["message"]),
    ]
    return Presentation(
        Kind.REGRESSIONS, "Regressions", shown, _COLUMNS, summary, {"states": states, "comparisons": verdicts}
    )


def _since(row: Row) -> str:
    """When it came into the state that it is in."""
    entered = {"nominated": "nominated_at", "confirmed": "confirmed_at"}
    return minute(row[entered.get(row["state"], "closed_at")])


_COLUMNS = (
    Column("state", lambda row: row["state"], is_number=False),
    Column("workload", lambda row: row["workload"], is_number=False, folds=True),
    Column("against", lambda row: row["baseline"], 2, is_number=False),
    Column("ratio", lambda row: ratio(row["ratio"])),
    Column("from", lambda row: ratio(row["ratio_lower"]), 1),
    Column("to", lambda row: ratio(row["ratio_upper"]), 1),
    Column("could see", lambda row: ratio(row["smallest_detectable"]), 4),
    Column("since", _since, 3, is_number=False),
    Column("candidate", lambda row: row["candidate_id"][:12], 5, is_number=False),
)
