"""Predicted against measured cost, drawn. Only what was predicted before it was measured is in the figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from tensorfarm.farm.observe.charts import BAD, GOOD, INK, PALE, PLAIN, Chart, chart, height_of, name_lines
from tensorfarm.farm.observe.cost_report import Accuracy, accuracies, counted
from tensorfarm.farm.observe.presentation import Presentation, Row

_MARKS = {"step_seconds": "o", "compile_seconds": "^"}
_CLAIMED = 0.9


def cost_charts(report: Presentation) -> list[Chart]:
    """Charts of the report; none where nothing was measured yet."""
    rows = report.rows
    fair = [row for row in rows if counted(row)]
    if not fair:
        return []
    known = [item for item in accuracies(rows) if item.n]
    return [
        chart(
            "scatter",
            "Predicted against measured seconds, with the 90 % interval; red where the measurement is outside of it.",
            (7, 5),
            lambda axes: _scatter(axes, fair),
        ),
        chart(
            "errors",
            "How far predictions were off: measured seconds are at 1×.",
            (7, 3),
            lambda axes: _errors(axes, fair),
        ),
        chart(
            "coverage",
            "Share of measurements inside their interval; the line is what the intervals claim.",
            (7, height_of(len(known))),
            lambda axes: _coverage(axes, known),
        ),
    ]


def _scatter(axes: Axes, rows: Sequence[Row]) -> None:
    for metric in sorted({row["metric"] for row in rows}):
        for inside, colour in ((True, GOOD), (False, BAD)):
            group = [row for row in rows if row["metric"] == metric and row["inside"] is inside]
            measured = [row["measured_seconds"] for row in group]
            predicted = [row["predicted"] for row in group]
            below = [max(row["predicted"] - row["lower"], 0.0) for row in group]
            above = [row["upper"] - row["predicted"] if math.isfinite(row["upper"]) else 0.0 for row in group]
            label = f"{metric}, {'inside' if inside else 'outside'}"
            if group:
                mark = _MARKS[metric]
                axes.errorbar(
                    measured, predicted, yerr=[below, above], fmt=mark, color=colour, ms=4, elinewidth=0.8, label=label
                )
    known = [value for row in rows for value in (row["measured_seconds"], row["predicted"]) if value > 0]
    ends = (min(known) / 1.5, max(known) * 1.5)
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured, s", ylabel="predicted, s")
    axes.legend(fontsize=8)


def _errors(axes: Axes, rows: Sequence[Row]) -> None:
    ratios = [math.log2(row["error_ratio"]) for row in rows if row["error_ratio"] > 0]
    axes.hist(ratios, bins=min(40, max(10, len(ratios) // 4)), color=PLAIN)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{2**value:.2g}×")
    axes.set(xlabel="predicted ÷ measured", ylabel="predictions")


def _coverage(axes: Axes, known: Sequence[Accuracy]) -> None:
    shares = [item.coverage for item in known]
    axes.barh(range(len(known)), shares, color=[GOOD if value >= _CLAIMED else PALE for value in shares], height=0.6)
    axes.axvline(_CLAIMED, color=INK, linewidth=0.8)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    name_lines(axes, [f"{item.metric} ({item.checkpoint}), n = {item.n}" for item in known])
