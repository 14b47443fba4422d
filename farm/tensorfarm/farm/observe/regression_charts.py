"""Regressions drawn: how much slower and how sure (a forest plot), and when each came into which state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

from tensorfarm.farm.observe.charts import BAD, GOOD, INK, PALE, Chart, chart, height_of, lines_of, name_lines
from tensorfarm.farm.observe.presentation import Presentation, Row

_COLOUR = {"confirmed": BAD, "nominated": "#e9a23b", "fixed": GOOD, "dismissed": PALE}
_MOMENTS = {"nominated_at": "nominated", "confirmed_at": "confirmed", "closed_at": ""}


def regression_charts(report: Presentation) -> list[Chart]:
    """Charts of the report; none where there is no regression."""
    kept, left_out = lines_of(report.rows)
    if not kept:
        return []
    size = (8, height_of(len(kept)))
    return [
        chart(
            "ratios",
            "Time of the candidate over its baseline's, with its interval; the tick is the smallest slow-down that the"
            " measurement could have seen." + left_out,
            size,
            lambda axes: _ratios(axes, kept),
        ),
        chart(
            "timeline",
            "When each came into its states: orange suspected, red confirmed, green fixed, grey dismissed." + left_out,
            size,
            lambda axes: _timeline(axes, kept),
        ),
    ]


def _ratios(axes: Axes, rows: Sequence[Row]) -> None:
    for at, row in enumerate(rows):
        colour = _COLOUR[row["state"]]
        ends = [value if math.isfinite(value) else row["ratio"] for value in (row["ratio_lower"], row["ratio_upper"])]
        axes.plot(ends, [at, at], color=colour, linewidth=2)
        axes.plot([row["ratio"]], [at], "o", color=colour, ms=5)
        if math.isfinite(row["smallest_detectable"]):
            axes.plot([row["smallest_detectable"]], [at], "|", color=INK, ms=10)
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xlabel("candidate ÷ baseline")
    name_lines(axes, [f"{row['workload']} ({row['state']})" for row in rows])


def _timeline(axes: Axes, rows: Sequence[Row]) -> None:
    for at, row in enumerate(rows):
        moments = [(row[name], state or row["state"]) for name, state in _MOMENTS.items() if row[name] is not None]
        numbers = [_number(moment) for moment, _ in moments]
        axes.plot([min(numbers), max(numbers)], [at, at], color=PALE, linewidth=1)
        for number, (_, state) in zip(numbers, moments, strict=True):
            axes.plot([number], [at], "o", color=_COLOUR[state], ms=6)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    name_lines(axes, [row["workload"] for row in rows])


def _number(moment: datetime) -> float:
    return float(date2num(moment))
