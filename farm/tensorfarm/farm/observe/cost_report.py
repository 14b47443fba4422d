"""What was predicted against what was then measured. Invariant: only a prediction that came first is counted.

Accuracy is told per metric and checkpoint: one number over times of calls and of compilations would say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import Any

from scipy.stats import kendalltau

from tensorfarm.cost_model.drift import Observed, drift
from tensorfarm.farm.observe.presentation import Column, Kind, Presentation, Row, minute, seconds, share


@dataclass(frozen=True)
class Accuracy:
    """How good the ``n`` predictions of a ``metric`` at a ``checkpoint`` were that came before their measurement.

    ``median_error`` is the median of |predicted ÷ measured − 1|; ``kendall_tau`` is NaN under two distinct values;
    ``coverage`` is the share of measurements inside their interval, 0.9 where the intervals are what they claim.
    ``has_drifted`` is of the newest model alone: what an older one predicted is no reason to calibrate again.
    """

    metric: str
    checkpoint: str
    n: int
    median_error: float
    kendall_tau: float
    coverage: float
    late: int
    not_measured: int
    out_of_distribution: int
    has_drifted: bool


def judged(row: Row) -> dict[str, Any]:
    """``row`` of the query ``report_cost``, with ``error_ratio`` (predicted ÷ measured) and ``inside`` its interval."""
    measured = row["measured_seconds"]
    if not measured:
        return {**row, "error_ratio": None, "inside": None}
    inside = row["lower"] <= measured <= row["upper"]
    return {**row, "error_ratio": row["predicted"] / measured, "inside": inside}


def counted(row: Row) -> bool:
    """Whether the prediction says something about the model: it was measured, and afterwards."""
    return row["error_ratio"] is not None and not row["late"]


def accuracies(rows: Sequence[Row]) -> list[Accuracy]:
    """One a metric and checkpoint, of judged rows."""

    def key(row: Row) -> tuple[str, str]:
        return row["metric"], row["checkpoint"]

    return [_accuracy(*about, list(group)) for about, group in groupby(sorted(rows, key=key), key)]


def _accuracy(metric: str, checkpoint: str, rows: Sequence[Row]) -> Accuracy:
    fair = [row for row in rows if counted(row)]
    pairs = [(row["predicted"], row["measured_seconds"]) for row in fair]
    distinct = min((len(set(side)) for side in zip(*pairs, strict=True)), default=0)
    return Accuracy(
        metric,
        checkpoint,
        n=len(fair),
        median_error=median(abs(row["error_ratio"] - 1) for row in fair) if fair else math.nan,
        kendall_tau=_kendall_tau(pairs) if distinct > 1 else math.nan,
        coverage=sum(row["inside"] for row in fair) / len(fair) if fair else math.nan,
        late=sum(row["late"] for row in rows),
        not_measured=sum(row["error_ratio"] is None for row in rows),
        out_of_distribution=sum(row["out_of_distribution"] for row in fair),
        has_drifted=_has_drifted(fair),
    )


def _has_drifted(fair: Sequence[Row]) -> bool:
    newest = max(fair, key=lambda row: row["predicted_at"])["model_id"] if fair else ""
    recent = [row for row in fair if row["model_id"] == newest]
    pairs = [Observed(row["predicted"], row["lower"], row["upper"], row["measured_seconds"]) for row in recent]
    return drift(pairs).has_drifted


def _kendall_tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's τ-b: 1 where the predictions order the cells as the measurements do."""
    found: Any = kendalltau(*zip(*pairs, strict=True))  # scipy's stubs leave the type of its result open
    return float(found.statistic)


def cost_report(rows: Sequence[Row]) -> Presentation:
    """The report over rows of the query ``report_cost``."""
    known = [judged(row) for row in rows]
    found = accuracies(known)
    totals = {"accuracy": [asdict(item) for item in found]}
    return Presentation(
        Kind.COST, "Predicted and measured cost", known, _COLUMNS, [_in_words(item) for item in found], totals
    )


def _in_words(item: Accuracy) -> str:
    tau = "" if math.isnan(item.kendall_tau) else f", Kendall τ {item.kendall_tau:.2f}"
    figures = f"median error {share(item.median_error)}{tau}, {share(item.coverage)} inside the 90 % interval, "
    apart = {
        "out of distribution": item.out_of_distribution,
        "late, not counted": item.late,
        "not measured": item.not_measured,
    }
    notes = "".join(f", {number} {what}" for what, number in apart.items() if number)
    advice = '; the model has drifted: run "farm calibrate"' if item.has_drifted else ""
    return f"{item.metric} ({item.checkpoint}): {figures if item.n else ''}n = {item.n}{notes}{advice}"


def _verdict(row: Row) -> str:
    """A prediction that was made when the answer was there is late, whatever it says."""
    if row["error_ratio"] is None:
        return "not measured"
    return "late" if row["late"] else "yes" if row["inside"] else "no"


_COLUMNS = (
    Column("cell", lambda row: row["subject"], is_number=False, folds=True),
    Column("metric", lambda row: row["metric"], is_number=False),
    Column("checkpoint", lambda row: row["checkpoint"], 3, is_number=False),
    Column("predicted", lambda row: seconds(row["predicted"])),
    Column("from", lambda row: seconds(row["lower"]), 1),
    Column("to", lambda row: seconds(row["upper"]), 1),
    Column("measured", lambda row: seconds(row["measured_seconds"])),
    Column("error", lambda row: "" if row["error_ratio"] is None else f"{100 * (row['error_ratio'] - 1):+.0f} %"),
    Column("inside", _verdict, 2, is_number=False),
    Column("known", lambda row: "no" if row["out_of_distribution"] else "yes", 4, is_number=False),
    Column("model", lambda row: row["model_id"][:12], 5, is_number=False),
    Column("predicted at", lambda row: minute(row["predicted_at"]), 6, is_number=False),
)
