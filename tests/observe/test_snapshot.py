"""Gauges are of what is open now: each fault is planted in a store, found in the snapshot, mended, and found gone."""

import math
import time
from pathlib import Path

import pytest
import yaml
from planted_farm import TARGET, PlantedFarm, workload

from tensorfarm.farm.app.alerting import read_snapshot
from tensorfarm.farm.app.sweep import budgets
from tensorfarm.farm.app.sweep_file import read_sweep_file
from tensorfarm.farm.observe.alerts import firing
from tensorfarm.farm.observe.gauges import GAUGES, SOURCES, snapshot_of
from tensorfarm.farm.observe.series import Snapshot

CONTRACT = Path(__file__).parents[2] / "configs" / "contracts" / "float32.yaml"


def read(farm: PlantedFarm) -> Snapshot:
    return read_snapshot(farm.layout.root)


def value(snapshot: Snapshot, gauge: str, **labels: str) -> float:
    """The one series of ``gauge`` with these labels; NaN where there is none."""
    found = list(snapshot.named(gauge, labels))
    assert len(found) <= 1, found
    return found[0].value if found else math.nan


def open_failure(farm: PlantedFarm, subject: str, failure_class: str) -> float:
    return value(read(farm), "farm_open_failures", workload=workload(subject), failure_class=failure_class)


def test_an_empty_store_has_no_failure_and_no_regression(farm: PlantedFarm) -> None:
    snapshot = read(farm)
    assert not list(snapshot.named("farm_open_failures"))
    assert not list(snapshot.named("farm_open_regressions"))
    assert value(snapshot, "farm_cache_entries", gate="missing") == 0


def test_a_failing_cell_is_open_until_its_next_outcome(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", mlp="admitted", bert="conformance_failure")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 1
    farm.whole_sweep("s2", mlp="admitted", bert="compile_failure")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 0
    assert open_failure(farm, "bert/fx", "compile_failure") == 1
    farm.whole_sweep("s3", mlp="admitted", bert="admitted")
    assert open_failure(farm, "bert/fx", "compile_failure") == 0


@pytest.mark.parametrize("nothing", ["task_rejection", "infrastructure_exhausted", "undecided"])
def test_an_outcome_that_says_nothing_of_the_artifact_closes_nothing(farm: PlantedFarm, nothing: str) -> None:
    farm.whole_sweep("s1", bert="conformance_failure")
    farm.whole_sweep("s2", bert=nothing)
    assert open_failure(farm, "bert/fx", "conformance_failure") == 1
    assert math.isnan(open_failure(farm, "bert/fx", nothing))
    farm.whole_sweep("s3", bert="admitted")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 0


def test_a_regression_is_no_failure_and_closes_one(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", bert="conformance_failure")
    farm.whole_sweep("s2", bert="performance_regression")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 0
    assert math.isnan(open_failure(farm, "bert/fx", "performance_regression"))


def test_a_failure_stays_open_while_the_next_sweep_is_on_its_way(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", bert="conformance_failure")
    farm.start("s2", "bert/fx")
    farm.submit("s2", "bert/fx")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 1


def test_a_cell_that_a_sweep_no_longer_has_is_not_open(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", mlp="admitted", bert="conformance_failure")
    farm.whole_sweep("s2", mlp="admitted")
    assert open_failure(farm, "bert/fx", "conformance_failure") == 0


def test_a_program_that_could_not_be_captured_is_open_under_its_own_workload(farm: PlantedFarm) -> None:
    farm.start("s1", "bert/fx")
    farm.end("s1", "bert/fx", "semantic_drift")
    assert open_failure(farm, "bert/fx", "semantic_drift") == 1


def open_regressions(farm: PlantedFarm) -> float:
    return value(read(farm), "farm_open_regressions", workload=workload("mlp/fx"), baseline="last_accepted")


def test_only_a_confirmed_regression_is_open_and_only_until_it_is_fixed(farm: PlantedFarm) -> None:
    farm.regression("Nominated")
    assert open_regressions(farm) == 0
    assert value(read(farm), "farm_nominated_regressions", workload=workload("mlp/fx")) == 1
    farm.regression("Confirmed")
    assert open_regressions(farm) == 1
    assert value(read(farm), "farm_nominated_regressions", workload=workload("mlp/fx")) == 0
    farm.regression("Fixed")
    assert open_regressions(farm) == 0


def test_measuring_an_open_regression_again_without_an_answer_leaves_it_open(farm: PlantedFarm) -> None:
    farm.regression("Confirmed")
    farm.regression("Nominated")
    assert open_regressions(farm) == 1
    farm.regression("Dismissed", verdict="inconclusive")
    assert open_regressions(farm) == 1


def test_a_dismissed_nomination_was_never_open(farm: PlantedFarm) -> None:
    farm.regression("Nominated")
    farm.regression("Dismissed", verdict="no_worse")
    assert open_regressions(farm) == 0
    assert value(read(farm), "farm_nominated_regressions", workload=workload("mlp/fx")) == 0


def test_an_artifact_served_without_a_passing_verdict_is_seen(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx", "bert/fx")
    farm.admit("s1", "mlp/fx")
    assert value(read(farm), "farm_cache_entries", gate="missing") == 0
    farm.admit("s1", "bert/fx", gated=False)
    snapshot = read(farm)
    assert value(snapshot, "farm_cache_entries", gate="missing") == 1
    assert value(snapshot, "farm_cache_entries", gate="passed") == 1


def test_an_admitted_cell_without_a_measurement_is_missing_from_the_coverage(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", mlp="admitted", bert="conformance_failure")
    farm.start("s2", "mlp/fx", "gpt2/fx", "bert/fx")
    farm.submit("s2", "gpt2/fx")
    farm.end("s2", "gpt2/fx", "admitted")
    snapshot = read(farm)
    assert value(snapshot, "farm_expected_cells", sweep="nightly") == 2
    assert value(snapshot, "farm_measured_cells", sweep="nightly") == 1


def test_a_bisection_by_hand_is_watched_by_nothing(farm: PlantedFarm) -> None:
    farm.pass_time(-8000)
    farm.whole_sweep("s1", mlp="admitted")
    farm.start("s2", "mlp/fx", "gpt2/fx", name="bisect-mlp", toolchain_id="another", pairs=0)
    before = read(farm)
    farm.submit("s2", "mlp/fx", toolchain_id="another")
    farm.submit("s2", "gpt2/fx")
    farm.compile("s2", "mlp/fx", 1e6)
    farm.bisect("s2", "gpt2/fx")
    farm.end("s2", "mlp/fx", "conformance_failure")
    after = read(farm)
    assert {item.alert.name for item in firing(after)} == {item.alert.name for item in firing(before)}
    assert not [item for item in after.series if "bisect-mlp" in str(item) or "gpt2" in str(item)]
    assert not list(after.named("farm_open_failures"))
    assert value(after, "farm_stale_workloads", reason="toolchain_changed") == 0
    assert value(after, "farm_expected_cells", sweep="nightly") == value(after, "farm_measured_cells", sweep="nightly")


def test_a_sweep_that_stands_still_ages_until_it_finishes_or_is_interrupted(farm: PlantedFarm) -> None:
    farm.pass_time(-4000)
    farm.start("s1", "mlp/fx")
    assert value(read(farm), "farm_queue_oldest_seconds", sweep="nightly") > 3900
    assert value(read(farm), "farm_queue_cells", stage="capture") == 1
    farm.submit("s1", "mlp/fx")
    assert value(read(farm), "farm_queue_cells", stage="compile") == 1
    farm.compile("s1", "mlp/fx")
    assert value(read(farm), "farm_queue_cells", stage="gate") == 1
    farm.end("s1", "mlp/fx", "admitted")
    farm.finish("s1")
    snapshot = read(farm)
    assert value(snapshot, "farm_queue_oldest_seconds", sweep="nightly") == 0
    assert sum(item.value for item in snapshot.named("farm_queue_cells")) == 0


def test_a_newer_sweep_of_the_same_name_takes_the_place_of_one_that_was_killed(farm: PlantedFarm) -> None:
    farm.pass_time(-4000)
    farm.start("killed", "mlp/fx")
    farm.pass_time(2000)
    farm.whole_sweep("s2", mlp="admitted")
    assert value(read(farm), "farm_queue_oldest_seconds", sweep="nightly") == 0


def test_a_bisection_is_active_until_it_has_finished(farm: PlantedFarm) -> None:
    farm.start("s1", "bert/fx")
    farm.bisect("s1", "bert/fx")
    assert value(read(farm), "farm_bisections_active", backend="fx") == 1
    last = farm.now_us / 1e6 - 1
    assert abs(value(read(farm), "farm_bisection_last_progress_timestamp_seconds", backend="fx") - last) < 1e-3
    farm.bisected("s1", "bert/fx")
    assert value(read(farm), "farm_bisections_active", backend="fx") == 0


def test_the_median_of_the_last_compilations_stands_beside_its_budget(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx")
    farm.budget("s1", "compile_seconds", 2.5)
    farm.submit("s1", "mlp/fx")
    for seconds in (100.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        farm.compile("s1", "mlp/fx", seconds)
    snapshot = read(farm)
    assert value(snapshot, "farm_compile_time_seconds", workload=workload("mlp/fx")) == 3
    assert value(snapshot, "farm_compile_budget_seconds", workload=workload("mlp/fx")) == 2.5


def test_how_long_a_sweep_file_calls_measurements_fresh_reaches_gauge_and_alert(
    farm: PlantedFarm, tmp_path: Path
) -> None:
    value_of_file = {
        "sweep": "nightly",
        "contract": str(CONTRACT),
        "pipelines": ["fx:dce"],
        "programs": [{"module": "models:mlp"}],
        "measure": {"fresh_hours": 2},
    }
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(value_of_file))
    farm.pass_time(-4 * 3600)
    farm.start("s1", "mlp/fx:dce")
    farm.tell(*budgets("s1", read_sweep_file(tmp_path / "nightly.yaml")))
    farm.submit("s1", "mlp/fx:dce")
    farm.measure("s1", "mlp/fx:dce")
    assert value(read(farm), "farm_measurement_period_seconds", sweep="nightly") == 7200
    assert "FarmMeasurementStale" in {item.alert.name for item in firing(read(farm))}
    farm.pass_time(4 * 3600)
    farm.measure("s1", "mlp/fx:dce")
    assert "FarmMeasurementStale" not in {item.alert.name for item in firing(read(farm))}


def test_the_error_of_predictions_is_that_of_the_newest_model(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx", "bert/fx")
    for subject, model, predicted in (("mlp/fx", "old", 50.0), ("bert/fx", "new", 1.0)):
        farm.submit("s1", subject)
        farm.predict("s1", subject, predicted, model)
        farm.measure("s1", subject, 0.5)
    error = value(read(farm), "farm_cost_model_abs_log_error", quantile="0.9")
    assert abs(error - math.log(2)) < 1e-9


def test_a_prediction_made_after_its_measurement_does_not_count(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx")
    farm.submit("s1", "mlp/fx")
    farm.measure("s1", "mlp/fx", 0.5)
    farm.predict("s1", "mlp/fx", 0.5)
    assert not list(read(farm).named("farm_cost_model_abs_log_error"))


def test_a_baseline_of_another_toolchain_is_seen(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx", toolchain_id="old")
    farm.submit("s1", "mlp/fx", toolchain_id="old")
    farm.accept("s1", "mlp/fx")
    assert value(read(farm), "farm_baseline_toolchain_match", workload=workload("mlp/fx")) == 1
    farm.start("s2", "mlp/fx")
    snapshot = read(farm)
    assert value(snapshot, "farm_baseline_toolchain_match", workload=workload("mlp/fx")) == 0
    assert value(snapshot, "farm_stale_workloads", reason="toolchain_changed") == 1


def test_noise_is_what_the_newest_comparisons_could_not_have_seen(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx")
    farm.submit("s1", "mlp/fx")
    farm.compared("s1", "mlp/fx", noise=math.inf)
    farm.compared("s1", "mlp/fx", noise=1.2)
    snapshot = read(farm)
    assert math.isclose(value(snapshot, "farm_aa_ratio_halfwidth"), 0.2)
    assert math.isclose(value(snapshot, "farm_metric_halfwidth_limit"), 0.05)
    assert math.isclose(value(snapshot, "farm_creep_threshold_ratio"), 1.05)


def test_a_comparison_that_did_not_come_about_hides_neither_creep_nor_noise(farm: PlantedFarm) -> None:
    farm.start("s1", "mlp/fx")
    farm.submit("s1", "mlp/fx")
    farm.compared("s1", "mlp/fx", baseline="anchor", lower=1.2, noise=1.3)
    before = read(farm)
    farm.compared("s1", "mlp/fx", baseline="anchor", lower=math.nan, noise=math.nan)
    after = read(farm)
    for gauge in ("farm_verdict_ratio_lower", "farm_creep_threshold_ratio", "farm_metric_halfwidth_limit"):
        assert value(after, gauge) == value(before, gauge)
    assert value(after, "farm_aa_ratio_halfwidth") == value(before, "farm_aa_ratio_halfwidth")


def test_a_series_never_vanishes_and_no_two_are_alike(farm: PlantedFarm) -> None:
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    history = (
        lambda: farm.whole_sweep("s1", mlp="admitted", bert="conformance_failure"),
        lambda: farm.regression("Confirmed"),
        lambda: farm.bisect("s1", "bert/fx"),
        lambda: farm.budget("s1", "compile_seconds", 1.0, 100),
        lambda: farm.compared("s1", "mlp/fx"),
        lambda: farm.accept("s1", "mlp/fx"),
        lambda: farm.regression("Fixed"),
        lambda: farm.whole_sweep("s2", mlp="admitted"),
    )
    for happen in history:
        happen()
        keys = [(item.name, item.labels) for item in read(farm).series]
        assert len(keys) == len(set(keys))
        assert seen <= set(keys)
        seen = set(keys)


def test_no_label_holds_a_hash_or_an_id(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", mlp="admitted")
    farm.accept("s1", "mlp/fx")
    farm.regression("Confirmed")
    values = {text for item in read(farm).series for _, text in item.labels}
    assert {text for text in values if "candidate" in text or "s1" in text} == set()
    assert f"mlp/fx inference {TARGET}" in values


def test_past_the_limit_the_last_series_are_dropped_and_counted() -> None:
    row = {gauge.column: 1 for gauge in GAUGES} | {label: "x" for gauge in GAUGES for label in gauge.labels}
    rows = {source: [row] for source in SOURCES}
    whole = snapshot_of(rows, time.time())
    cut = snapshot_of(rows, time.time(), limit=3)
    assert (whole.dropped, len(whole.series)) == (0, len(GAUGES))
    assert (cut.dropped, len(cut.series)) == (len(GAUGES) - 3, 3)
    assert cut.series[0].name == "farm_open_failures"
