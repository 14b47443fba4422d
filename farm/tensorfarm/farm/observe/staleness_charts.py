"""How old measurements are, and why workloads are stale, drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tensorfarm.farm.observe.charts import BAD, INK, PALE, PLAIN, Chart, chart, height_of, lines_of, name_lines
from tensorfarm.farm.observe.presentation import Presentation, Row

_AGES = {"measurement_days": ("measured", "o"), "baseline_days": ("baseline", "s"), "model_days": ("model", "^")}


def staleness_charts(report: Presentation) -> list[Chart]:
    """Charts of the report's rows; each only where there is something to draw."""
    rows, limit_days = report.rows, report.totals["limit_days"]
    counts = Counter(reason for row in rows for reason in row["reasons"]).most_common()
    aged = [row for row in rows if any(row[name] is not None for name in _AGES)]
    drawn = list[Chart]()
    if counts:
        size = (8, height_of(len(counts)))
        drawn.append(chart("reasons", "Workloads by reason.", size, lambda axes: _reasons(axes, counts)))
    if aged:
        kept, left_out = lines_of(aged)
        caption = (
            "Days since a workload was measured, its baseline accepted and its model calibrated; red is stale, for"
            " whatever reason. The line is the limit of measurements and models."
        )
        size = (8, height_of(len(kept)))
        drawn.append(chart("ages", caption + left_out, size, lambda axes: _ages(axes, kept, limit_days)))
    return drawn


def _reasons(axes: Axes, counts: Sequence[tuple[str, int]]) -> None:
    axes.barh(range(len(counts)), [number for _, number in counts], color=PLAIN, height=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("workloads")
    name_lines(axes, [reason for reason, _ in counts])


def _ages(axes: Axes, rows: Sequence[Row], limit_days: float) -> None:
    for name, (label, mark) in _AGES.items():
        known = [(row[name], at) for at, row in enumerate(rows) if row[name] is not None]
        if known:
            days, lines = zip(*known, strict=True)
            axes.scatter(
                days, lines, marker=mark, label=label, color=PALE if name != "measurement_days" else PLAIN, s=22
            )
    stale = [
        (row["measurement_days"], at)
        for at, row in enumerate(rows)
        if row["reasons"] and row["measurement_days"] is not None
    ]
    if stale:
        axes.scatter(*zip(*stale, strict=True), color=BAD, s=22)
    axes.axvline(limit_days, color=INK, linewidth=0.8)
    axes.set_xlim(left=0)
    axes.set_xlabel("days")
    axes.legend(fontsize=8)
    name_lines(axes, [row["workload"] for row in rows])
