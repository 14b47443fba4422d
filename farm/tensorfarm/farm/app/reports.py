"""The reports over costs and speed: each is rows of a named query, judged by a pure function of ``observe``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.kept_model import newest_model
from tensorfarm.farm.app.reading import sweep_report
from tensorfarm.farm.observe.budget_report import budget_report
from tensorfarm.farm.observe.cost_report import cost_report
from tensorfarm.farm.observe.presentation import Presentation
from tensorfarm.farm.observe.regression_report import regression_report
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


def costs(store: Path, as_of: datetime | None = None) -> Presentation:
    """Predictions against measurements. Refuses a store without predictions, and says what it lacks to make some."""
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        rows = reader.named("report_cost").to_pylist()
        if rows:
            return cost_report(rows)
        (basis,) = reader.named("report_cost_basis").to_pylist()
        if basis["model_target"] is not None:
            newest_model(reader, basis["model_target"])
    step = 'run "farm calibrate", then "farm sweep CONFIG"'
    if not basis["peaks"]:
        lacks = "no machine's peaks were measured"
    elif basis["model_target"] is None:
        lacks = "peaks were measured, no model was calibrated"
    else:
        lacks, step = "no sweep ran since a model was calibrated", 'run "farm sweep CONFIG"'
    raise Refusal(f"store {store} holds no prediction", limit=lacks, next_step=step)


def budgets(store: Path, sweep_id: str = "", as_of: datetime | None = None) -> Presentation:
    """What the cells of a sweep spent, the newest where no id is given. Refuses an unknown id and an empty store."""
    sweep = sweep_report(store, sweep_id, as_of)
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        table = reader.named("report_budget", sweep_id=sweep.sweep_id)
    limits = {row["subject"]: row for row in table.to_pylist()}
    nothing = dict.fromkeys(table.column_names)
    cells = [{**row, **limits.get(row["subject"], nothing), "subject": row["subject"]} for row in sweep.cells]
    return budget_report(sweep.sweep_id, cells)


def regressions(store: Path, *, every: bool, as_of: datetime | None = None) -> Presentation:
    """Open and suspected regressions, with ``every`` the closed ones too. An empty list is good news, not a refusal."""
    with Reader(StoreLayout(store), as_of=as_of) as reader:
        rows = reader.named("report_regressions").to_pylist()
        comparisons = reader.named("report_comparisons").to_pylist()
    return regression_report(rows, comparisons, every)
