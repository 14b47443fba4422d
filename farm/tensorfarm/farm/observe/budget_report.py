"""What compiling cost against what it may cost, and when it pays for itself and for its proof.

Invariant: break-even is of measured times; what a model thought of it stands in its own column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tensorfarm.contract.outcome import FailureKind
from tensorfarm.cost_model.budget import break_even_calls
from tensorfarm.farm.observe.presentation import Column, Kind, Presentation, Row, count, seconds, share


def budgeted(row: Row) -> dict[str, Any]:
    """A row of the query ``report_sweep`` with that of ``report_budget``, and what follows from them.

    ``used`` is the share of its limit that compiling took; ``spent_seconds`` is compile and gate time in this sweep,
    nothing where the cache answered; ``break_even_calls``, of what was spent, is infinite where the candidate is no
    faster and None where it was not measured.
    """
    known = [value for value in (row["compile_seconds"], row["gate_seconds"]) if value is not None]
    spent = 0.0 if row["cached"] else sum(known) if known else None
    reference, candidate, limit = row["eager_p50_seconds"], row["candidate_p50_seconds"], row["limit_seconds"]
    pays_after = None
    if spent is not None and reference is not None and candidate is not None:
        pays_after = break_even_calls(spent, reference, candidate)
    found = {
        **row,
        "spent_seconds": spent,
        "used": row["compile_seconds"] / limit if row["compile_seconds"] is not None and limit else None,
        "break_even_calls": pays_after,
    }
    return found | {"verdict": _verdict(found)}


def _verdict(row: Row) -> str:
    """``pays`` and ``does not pay`` are said where calls were declared and the candidate was measured."""
    if row["outcome_kind"] == FailureKind.BUDGET_EXCEEDED:
        return "killed"
    if row["rejected_break_even_calls"] is not None:
        return "rejected"
    if row["declared_calls"] is not None and row["break_even_calls"] is not None:
        return "pays" if row["break_even_calls"] <= row["declared_calls"] else "does not pay"
    return "cached" if row["cached"] else "within" if row["used"] is not None else ""


def budget_report(sweep_id: str, rows: Sequence[Row]) -> Presentation:
    """The report over one sweep. ``rows`` are the cells' rows of ``report_sweep``, each with its ``report_budget``."""
    cells = [budgeted(row) for row in rows]
    spent = [row["spent_seconds"] for row in cells if row["spent_seconds"] is not None]
    verdicts = Counter(row["verdict"] for row in cells if row["verdict"])
    limit = next((row["limit_seconds"] for row in cells if row["limit_seconds"] is not None), None)
    calls = next((row["declared_calls"] for row in cells if row["declared_calls"] is not None), None)
    limits = [
        f"{seconds(limit)} to compile a cell" if limit is not None else "no limit was declared",
        *([f"{count(calls)} calls declared"] if calls is not None else []),
    ]
    found = ", ".join(f"{verdict} {number}" for verdict, number in verdicts.most_common())
    summary = [f"budget: {', '.join(limits)}", f"spent {seconds(sum(spent))} in all" + (f": {found}" if found else "")]
    totals = {"sweep_id": sweep_id, "limit_seconds": limit, "declared_calls": calls, "spent_seconds": sum(spent)}
    return Presentation(
        Kind.BUDGET, f"Budget of sweep {sweep_id}", cells, _COLUMNS, summary, totals | {"verdicts": verdicts}
    )


_COLUMNS = (
    Column("cell", lambda row: row["subject"], is_number=False, folds=True),
    Column("limit", lambda row: seconds(row["limit_seconds"]), 2),
    Column("predicted", lambda row: seconds(row["predicted_compile_seconds"]), 3),
    Column("compile", lambda row: seconds(row["compile_seconds"])),
    Column("gate", lambda row: seconds(row["gate_seconds"]), 1),
    Column("used", lambda row: share(row["used"])),
    Column("eager", lambda row: seconds(row["eager_p50_seconds"]), 5),
    Column("compiled", lambda row: seconds(row["candidate_p50_seconds"]), 5),
    Column("break-even", lambda row: count(row["break_even_calls"])),
    Column("as predicted", lambda row: count(row["rejected_break_even_calls"]), 6),
    Column("calls", lambda row: count(row["declared_calls"]), 4),
    Column("verdict", lambda row: row["verdict"], is_number=False),
)
