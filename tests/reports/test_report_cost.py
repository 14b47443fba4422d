"""The cost report counts what was predicted before it was measured, and says how good that was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_facts import compiled, ended, finished, measured, predicted, started, submitted, write

from tensorfarm.contract import events as e
from tensorfarm.cost_model.calibrate import CostModel
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.farm.observe.cost_report import accuracies, judged
from tensorfarm.farm.store.layout import StoreLayout

Reported = Callable[..., dict[str, Any]]
Farm = Callable[..., tuple[int, str, str]]
PEAKS = Peaks("cpu", 1, "2", (), (), (), (), {}, {})


def row_of(report: dict[str, Any], subject: str, metric: str) -> dict[str, Any]:
    (found,) = [row for row in report["rows"] if (row["subject"], row["metric"]) == (subject, metric)]
    return found


def test_a_prediction_is_held_against_what_was_measured_after_it(swept: StoreLayout, reported: Reported) -> None:
    report = reported("cost")
    fast = row_of(report, "fast/fx:dce", "step_seconds")
    slow = row_of(report, "slow/fx:dce", "step_seconds")
    built = row_of(report, "fast/fx:dce", "compile_seconds")
    assert (fast["measured_seconds"], fast["inside"], fast["late"]) == (0.001, True, False)
    assert fast["error_ratio"] == pytest.approx(1.1)
    assert (slow["measured_seconds"], slow["inside"]) == (0.002, False)
    assert (built["measured_seconds"], built["error_ratio"]) == (10.0, pytest.approx(0.8))


def test_the_totals_are_of_each_metric_and_checkpoint(swept: StoreLayout, reported: Reported) -> None:
    found = {item["metric"]: item for item in reported("cost")["totals"]["accuracy"]}
    step = found["step_seconds"]
    assert (step["n"], step["coverage"], step["kendall_tau"]) == (2, 0.5, pytest.approx(1.0))
    assert step["median_error"] == pytest.approx((0.1 + 1.0) / 2)
    assert (found["compile_seconds"]["n"], found["compile_seconds"]["kendall_tau"]) == (1, "nan")


def test_a_model_that_is_off_by_half_has_drifted_until_a_newer_one_predicts(
    layout: StoreLayout, reported: Reported, farm: Farm
) -> None:
    told = [(0, started())]
    for number in range(5):
        name = f"p{number}"
        told += [(1, submitted(name)), (2, predicted(name, "step_seconds", 0.002)), (9, measured(name, 0.001, 0.003))]
    write(layout, *told)
    (seen,) = reported("cost")["totals"]["accuracy"]
    assert (seen["n"], seen["has_drifted"]) == (5, True)
    assert "the model has drifted" in farm("report", "cost")[1]
    newer = replace(predicted("p5", "step_seconds", 0.001), model_id="newer")
    write(layout, (20, submitted("p5")), (21, newer), (29, measured("p5", 0.001, 0.003)))
    (seen,) = reported("cost")["totals"]["accuracy"]
    assert (seen["n"], seen["has_drifted"]) == (6, False)


def test_a_prediction_made_after_its_measurement_is_late_and_not_counted(
    swept: StoreLayout, reported: Reported, farm: Farm
) -> None:
    before = {item["metric"]: item for item in reported("cost")["totals"]["accuracy"]}["step_seconds"]
    write(swept, (45, predicted("fast", "step_seconds", 0.001, checkpoint="captured after all")))
    report = reported("cost")
    (late,) = [row for row in report["rows"] if row["checkpoint"] == "captured after all"]
    assert (late["late"], late["measured_seconds"]) == (True, 0.001)
    after = {(item["metric"], item["checkpoint"]): item for item in report["totals"]["accuracy"]}
    assert after["step_seconds", "captured"] == before
    assert (after["step_seconds", "captured after all"]["n"], after["step_seconds", "captured after all"]["late"]) == (
        0,
        1,
    )
    assert "1 late, not counted" in farm("report", "cost")[1]


def test_a_measurement_of_a_later_sweep_does_not_replace_the_first_one(swept: StoreLayout, reported: Reported) -> None:
    write(swept, (900, e.Measured("nightly-2", "fast/fx:dce", *_slower())))
    assert row_of(reported("cost"), "fast/fx:dce", "step_seconds")["measured_seconds"] == 0.001


def _slower() -> tuple[Any, ...]:
    again = measured("fast", 0.003, 0.009)
    assert isinstance(again, e.Measured)
    return again.candidate_id, again.artifact_sha256, again.seconds, again.measurements


def test_a_prediction_without_a_measurement_is_shown_and_not_counted(layout: StoreLayout, reported: Reported) -> None:
    write(layout, (0, started()), (1, submitted("fast")), (2, predicted("fast", "step_seconds", 0.001)))
    report = reported("cost")
    assert (report["rows"][0]["measured_seconds"], report["rows"][0]["inside"]) == (None, None)
    assert (report["totals"]["accuracy"][0]["n"], report["totals"]["accuracy"][0]["not_measured"]) == (0, 1)


def test_as_of_knows_no_later_measurement(swept: StoreLayout, reported: Reported) -> None:
    rows = reported("cost", "--as-of", "2026-05-28T20:26:50")["rows"]
    assert [row["measured_seconds"] for row in rows if row["metric"] == "step_seconds"] == [None, None]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((), "no machine's peaks were measured"),
        ((e.PeaksMeasured("c", "cpu", "p", {}, 1.0),), "no model was calibrated"),
        (
            (
                e.PeaksMeasured("c", "cpu", "p", {}, 1.0),
                e.CostModelCalibrated("c", "cpu", "m", "p", 9, 0.1, 0.9, CostModel.fit([], PEAKS).model.as_json()),
            ),
            "no sweep ran since",
        ),
        (
            (
                e.PeaksMeasured("c", "cpu", "p", {}, 1.0),
                e.CostModelCalibrated("c", "cpu", "m", "p", 9, 0.1, 0.9, {"format": "tensorfarm.cost-model/0"}),
            ),
            "model of cpu is of another format",
        ),
    ],
)
def test_a_store_without_predictions_says_what_it_lacks(
    layout: StoreLayout, farm: Farm, known: tuple[e.Event, ...], said: str
) -> None:
    write(layout, (0, started()), (1, ended("fast")), (2, finished()), *((3, event) for event in known))
    code, out, err = farm("report", "cost")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert 'run "farm' in err


def test_a_cell_that_was_compiled_twice_counts_its_first_time_after_the_prediction(
    swept: StoreLayout, reported: Reported
) -> None:
    write(swept, (700, compiled("fast", 99.0, "nightly-2")))
    assert row_of(reported("cost"), "fast/fx:dce", "compile_seconds")["measured_seconds"] == 10.0


positive = st.floats(1e-6, 1e3)


@given(st.lists(st.tuples(positive, positive, st.booleans()), max_size=12))
def test_accuracy_is_a_share_and_late_ones_never_move_it(pairs: list[tuple[float, float, bool]]) -> None:
    rows = [
        judged(
            {
                "metric": "step_seconds",
                "checkpoint": "captured",
                "predicted": predicted_seconds,
                "lower": predicted_seconds / 2,
                "upper": predicted_seconds * 2,
                "measured_seconds": measured_seconds,
                "late": late,
                "out_of_distribution": False,
                "model_id": "model-1",
                "predicted_at": at,
            }
        )
        for at, (predicted_seconds, measured_seconds, late) in enumerate(pairs)
    ]
    in_time = [row for row in rows if not row["late"]]
    found, fair = accuracies(rows), accuracies(in_time)
    assert sum(item.n for item in found) == len(in_time)
    if in_time:
        assert (found[0].coverage, found[0].median_error) == (fair[0].coverage, fair[0].median_error)
        assert 0 <= found[0].coverage <= 1
