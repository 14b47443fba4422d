"""Budget use and break-even, drawn: a bar a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from tensorfarm.farm.observe.charts import BAD, GOOD, INK, PALE, PLAIN, Chart, chart, height_of, lines_of, name_lines
from tensorfarm.farm.observe.presentation import Presentation, Row


def budget_charts(report: Presentation) -> list[Chart]:
    """Charts of the report; each only where there is something to draw."""
    rows = report.rows
    spent = sorted((row for row in rows if row["spent_seconds"]), key=lambda row: -row["spent_seconds"])
    paying = [row for row in rows if row["break_even_calls"] is not None and math.isfinite(row["break_even_calls"])]
    paying = sorted((row for row in paying if row["break_even_calls"] > 0), key=lambda row: row["break_even_calls"])
    drawn = list[Chart]()
    if spent:
        kept, left_out = lines_of(spent)
        caption = (
            "Seconds of compiling and of the gate, most first; the line is the limit of compiling, red was killed."
            + left_out
        )
        drawn.append(chart("use", caption, (8, height_of(len(kept))), lambda axes: _use(axes, kept)))
    if paying:
        fastest, more = lines_of(paying)
        never = sum(math.isinf(row["break_even_calls"] or 0) for row in rows)
        caption = f"Calls until compiling has paid for itself, by measured times; {never} cells never pay." + more
        drawn.append(chart("breakeven", caption, (8, height_of(len(fastest))), lambda axes: _calls(axes, fastest)))
    return drawn


def _use(axes: Axes, rows: Sequence[Row]) -> None:
    compiled = [row["compile_seconds"] or 0.0 for row in rows]
    judged = [row["gate_seconds"] or 0.0 for row in rows]
    colours = [BAD if row["verdict"] == "killed" else PLAIN for row in rows]
    axes.barh(range(len(rows)), compiled, color=colours, height=0.6, label="compile")
    axes.barh(range(len(rows)), judged, left=compiled, color=PALE, height=0.6, label="gate")
    for at, row in enumerate(rows):
        if row["limit_seconds"]:
            axes.plot([row["limit_seconds"]] * 2, [at - 0.5, at + 0.5], color=INK, linewidth=1)
    axes.set_xlabel("s")
    axes.legend(fontsize=8, loc="lower right")
    name_lines(axes, [row["subject"] for row in rows])


def _calls(axes: Axes, rows: Sequence[Row]) -> None:
    declared = rows[0]["declared_calls"]
    calls = [row["break_even_calls"] for row in rows]
    colours = [PLAIN if declared is None else GOOD if value <= declared else BAD for value in calls]
    axes.barh(range(len(rows)), calls, color=colours, height=0.6)
    if declared:
        axes.axvline(declared, color=INK, linewidth=0.8)
    axes.set(xscale="log", xlabel="calls")
    name_lines(axes, [row["subject"] for row in rows])
