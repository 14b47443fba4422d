"""Writes a report's page. Apart from the reports: drawing imports matplotlib, which takes most of a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.observe.budget_charts import budget_charts
from tensorfarm.farm.observe.charts import Chart
from tensorfarm.farm.observe.cost_charts import cost_charts
from tensorfarm.farm.observe.pages import page
from tensorfarm.farm.observe.presentation import Kind, Presentation
from tensorfarm.farm.observe.regression_charts import regression_charts
from tensorfarm.farm.observe.staleness_charts import staleness_charts

_CHARTS: Mapping[Kind, Callable[[Presentation], Sequence[Chart]]] = {
    Kind.COST: cost_charts,
    Kind.BUDGET: budget_charts,
    Kind.STALENESS: staleness_charts,
    Kind.REGRESSIONS: regression_charts,
}


def write_page(file: Path, report: Presentation, store: Path, as_of: datetime | None) -> None:
    """Write the report with its plots to ``file``. Refuses a place that cannot be written."""
    when = (as_of or datetime.now(UTC)).astimezone(UTC)
    about = f"store {store}, {'as of' if as_of else 'read at'} {when:%Y-%m-%d %H:%M} UTC"
    text = page(report, _CHARTS[report.kind](report), about)
    try:
        file.write_text(text)
    except OSError as error:
        raise Refusal(
            f"{file} cannot be written: {error.strerror}",
            limit="a file in a folder that is there and yours",
            next_step="correct --html",
        ) from None
