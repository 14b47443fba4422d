"""What is made of predictions: whether compiling pays, whether a result is stale, whether a model has drifted."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfarm.cost_model.budget import break_even_calls, worth
from tensorfarm.cost_model.drift import Observed, drift
from tensorfarm.cost_model.fit import Prediction
from tensorfarm.cost_model.staleness import AgeLimits, Ages, Facts, Identity, Reason, reasons

SECONDS = st.floats(1e-7, 1e4)
THEN = Identity("program", "contract", "toolchain", "gate", "machine", (("dce", "1"),))
FRESH = Facts(THEN, THEN, Ages(1.0, 1.0, 1.0))
OLD = 400 * 86_400.0


def test_compiling_pays_after_its_cost_over_the_gain_of_a_call() -> None:
    assert break_even_calls(10.0, 0.003, 0.001) == pytest.approx(5000)


@given(SECONDS, SECONDS)
def test_what_is_no_faster_than_the_reference_never_pays(spent: float, reference: float) -> None:
    assert break_even_calls(spent, reference, reference) == math.inf
    assert break_even_calls(spent, reference, 2 * reference) == math.inf


@given(SECONDS, SECONDS, st.floats(0.1, 0.9))
def test_dearer_compiling_never_pays_sooner(spent: float, reference: float, ratio: float) -> None:
    soon = break_even_calls(spent, reference, ratio * reference)
    assert break_even_calls(2 * spent, reference, ratio * reference) >= soon


def test_a_candidate_pays_for_compilation_and_gate_by_its_prediction_and_sooner_at_its_best() -> None:
    faster = Prediction(0.002, 0.001, 0.004, False)
    found = worth(compile_seconds=1.5, gate_seconds=0.5, reference_seconds=0.003, candidate=faster, expected_calls=2500)
    assert found.break_even_calls == pytest.approx(2000)
    assert found.at_best == pytest.approx(1000)


CHANGES = {
    Reason.PROGRAM_CHANGED: replace(THEN, program="other"),
    Reason.CONTRACT_CHANGED: replace(THEN, contract="other"),
    Reason.TOOLCHAIN_CHANGED: replace(THEN, toolchain="other"),
    Reason.GATE_CHANGED: replace(THEN, gate="other"),
    Reason.MACHINE_CHANGED: replace(THEN, machine="other"),
    Reason.PASS_CHANGED: replace(THEN, passes=(("dce", "2"),)),
}
PLANTED = {reason: replace(FRESH, current=now) for reason, now in CHANGES.items()} | {
    Reason.NEVER_ADMITTED: replace(FRESH, admitted=False),
    Reason.ARTIFACT_MISSING: replace(FRESH, artifact_present=False),
    Reason.NEVER_MEASURED: replace(FRESH, ages=Ages(None, 1.0, 1.0)),
    Reason.MEASUREMENT_OLDER_THAN_LIMIT: replace(FRESH, ages=Ages(OLD, 1.0, 1.0)),
    Reason.BASELINE_MISSING: replace(FRESH, ages=Ages(1.0, None, 1.0)),
    Reason.BASELINE_OLDER_THAN_LIMIT: replace(FRESH, ages=Ages(1.0, OLD, 1.0)),
    Reason.MODEL_MISSING: replace(FRESH, ages=Ages(1.0, 1.0, None)),
    Reason.MODEL_OLDER_THAN_LIMIT: replace(FRESH, ages=Ages(1.0, 1.0, OLD)),
}


def test_every_reason_of_staleness_is_planted_here() -> None:
    assert set(PLANTED) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_planted_reason_is_the_only_one_found(reason: Reason) -> None:
    assert reasons(PLANTED[reason]) == {reason}


def test_what_is_fresh_or_unknown_has_no_reason_and_reasons_add_up() -> None:
    assert reasons(FRESH) == frozenset()
    assert reasons(replace(FRESH, recorded=Identity())) == frozenset()
    both = replace(FRESH, current=replace(THEN, gate="other"), ages=Ages(OLD, 1.0, 1.0))
    assert reasons(both) == {Reason.GATE_CHANGED, Reason.MEASUREMENT_OLDER_THAN_LIMIT}
    assert reasons(both, AgeLimits(measurement=OLD + 1)) == {Reason.GATE_CHANGED}


def test_a_model_that_is_off_by_half_has_drifted_and_one_that_is_noisy_has_not() -> None:
    good = [Observed(1.0, 0.8, 1.25, 1.0 + 0.1 * sign) for sign in (-1, 1, -1, 1, 0, 1)]
    assert not drift(good).has_drifted
    slow = [Observed(1.0, 0.8, 1.25, 2.0)] * 6
    found = drift(slow)
    assert found.has_drifted
    assert found.bias == pytest.approx(-math.log(2))
    assert found.coverage == 0


def test_few_predictions_say_nothing_about_a_model() -> None:
    assert not drift([Observed(1.0, 0.8, 1.25, 9.0)] * 4).has_drifted
    assert math.isnan(drift([]).median_log_error)
