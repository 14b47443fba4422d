"""The comparison of one tensor: what is within a budget, and what never is."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.numerics import Budget
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.checks import forward, gradient, identity, loading, metadata, mutation
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.verdict import verdict_of

BUDGET = Budget(c=4, k=10)
UNIT = 2.0**-24
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def expected(exact: torch.Tensor, sigma: float = 0.0, eager: torch.Tensor | None = None) -> Expected:
    return Expected(exact.float() if eager is None else eager, exact, torch.full_like(exact, sigma))


def compared(seen: torch.Tensor, wanted: Expected) -> Finding:
    return agreement("forward", "output 0", seen, wanted, BUDGET, 1)


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=8), st.integers(0, 7), st.floats(0, allow_nan=False))
def test_a_nan_is_never_within_a_budget(values: list[float], position: int, sigma: float) -> None:
    exact = torch.tensor(values, dtype=torch.float64)
    position %= len(values)
    seen = exact.float()
    seen[position] = math.nan
    finding = compared(seen, expected(exact, sigma))
    assert (finding.status, finding.worst_index) == (Status.FAIL, (position,))


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=8))
def test_the_rounded_exact_value_always_agrees(values: list[float]) -> None:
    exact = torch.tensor(values, dtype=torch.float64)
    assert compared(exact.float(), expected(exact)).n_bad == 0


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-20, 1e20), st.floats(1.5, 1e6), st.integers(0, 9))
def test_one_element_past_its_limit_is_found_and_named(value: float, times: float, position: int) -> None:
    exact = torch.full((10,), value, dtype=torch.float64)
    seen = exact.clone()
    seen[position] += times * (4 * UNIT * value)
    finding = compared(seen.float(), expected(exact))
    assert (finding.status, finding.worst_index, finding.n_bad) == (Status.FAIL, (position,), 1)
    assert finding.observed_over_limit == pytest.approx(times, rel=0.3)


def test_special_values_are_required_only_where_eager_and_the_rounded_oracle_agree() -> None:
    exact = torch.tensor([math.nan, math.inf, 1e39, math.nan], dtype=torch.float64)
    eager = torch.tensor([math.nan, math.inf, 3.4e38, 1.0])
    wanted = expected(exact, eager=eager)
    assert compared(torch.tensor([math.nan, math.inf, math.inf, 7.0]), wanted).status is Status.PASS
    assert compared(torch.tensor([math.nan, -math.inf, 1.0, 1.0]), wanted).worst_index == (1,)
    assert compared(torch.tensor([0.0, math.inf, 1.0, 1.0]), wanted).worst_index == (0,)


def test_a_missing_tensor_another_shape_and_another_dtype_fail_without_broadcasting() -> None:
    wanted = expected(torch.ones(3, 1, dtype=torch.float64))
    assert agreement("forward", "output 0", None, wanted, BUDGET, 1).status is Status.FAIL
    assert compared(torch.ones(1, 3), wanted).status is Status.FAIL
    assert compared(torch.ones(3, 1).double(), wanted).status is Status.FAIL


def test_small_values_beside_large_ones_are_decidable_and_a_tensor_of_noise_is_not() -> None:
    exact = torch.tensor([1e-9] * 3 + [1.0] * 5, dtype=torch.float64)
    assert compared(exact.float(), expected(exact, sigma=1e-7)).status is Status.PASS
    noise = torch.full((8,), 1e-9, dtype=torch.float64)
    assert compared(noise.float(), expected(noise, sigma=1e-7)).status is Status.UNDECIDABLE
    part = agreement("gradient", "gradient b", noise.float(), expected(noise, sigma=1e-7), BUDGET, 1, scale=1e-2)
    assert part.status is Status.PASS


def test_where_the_original_is_outside_its_limit_only_a_far_larger_error_fails() -> None:
    exact = torch.ones(5, dtype=torch.float64)
    eager = exact.float()
    eager[0] += 1e-4
    finding = compared(eager, expected(exact, eager=eager))
    assert (finding.status, finding.n_elements) == (Status.PASS, 4)
    far = eager.clone()
    far[0] += 4e-4
    assert compared(far, expected(exact, eager=eager)).worst_index == (0,)
    wholly = exact.float() + 1e-4
    assert compared(wholly, expected(exact, eager=wholly)).status is Status.UNDECIDABLE
    assert compared(exact.float() + 5e-4, expected(exact, eager=wholly)).status is Status.FAIL


def test_zeros_are_decided_although_their_limit_is_the_smallest_number() -> None:
    zeros = torch.zeros(4, dtype=torch.float64)
    assert compared(zeros.float(), expected(zeros)).status is Status.PASS
    assert compared(zeros.float() + 1e-30, expected(zeros)).status is Status.FAIL


def test_an_integer_is_required_where_eager_and_the_oracle_say_the_same() -> None:
    wanted = Expected(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]), None)
    assert compared(torch.tensor([1, 2, 9]), wanted).status is Status.PASS
    assert compared(torch.tensor([1, 3, 3]), wanted).worst_index == (1,)


def test_complex_values_are_compared_part_by_part() -> None:
    exact = torch.tensor([1 + 1j, 2 - 1j], dtype=torch.complex128)
    wanted = Expected(exact.to(torch.complex64), exact, torch.zeros(2, 2, dtype=torch.float64))
    assert compared(exact.to(torch.complex64), wanted).status is Status.PASS
    assert compared((exact + 1e-3j).to(torch.complex64), wanted).worst_index[1:] == (1,)


CHECKS = (identity.NAME, loading.NAME, metadata.NAME, mutation.NAME, forward.NAME, gradient.NAME)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CHECKS), st.sampled_from(list(Status))), max_size=12), st.booleans())
def test_a_verdict_is_admitted_only_where_every_required_check_ran_and_passed(
    told: list[tuple[str, Status]], training: bool
) -> None:
    mode = "training" if training else "inference"
    findings = [Finding(check, "thing", status, "message") for check, status in told]
    verdict = verdict_of(findings, mode)
    failed = {check for check, status in told if status is Status.FAIL}
    required = set(CHECKS) if training else set(CHECKS) - {gradient.NAME}
    if identity.NAME in failed:
        assert verdict.outcome is Outcome.SEMANTIC_DRIFT
    elif failed:
        assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    elif required <= {check for check, _ in told} and all(status is Status.PASS for _, status in told):
        assert verdict.outcome is Outcome.ADMITTED
    else:
        assert verdict.outcome is Outcome.UNDECIDED


def test_a_row_holds_no_number_that_json_cannot() -> None:
    row = Finding("forward", "output 0", Status.FAIL, "", math.inf, math.nan).row(seed=3)
    assert (row["observed_over_limit"], row["digits"], row["seed"]) == ("inf", "nan", 3)


def test_an_expectation_survives_its_file(tmp_path) -> None:
    value = Expected(torch.ones(2, 3).t(), torch.ones(3, 2).double(), torch.zeros(3, 2).double(), True)
    made = Expectation((value, None, 7), {"w": value, "b": None}, {}, {"norm.mean": value}, {0: torch.ones(3, 2)}, True)
    read = Expectation.load(tmp_path / "kept", made.save(tmp_path / "kept"))
    assert (read.outputs[1:], read.gradients["b"], read.random) == ((None, 7), None, True)
    assert read.outputs[0].eager.stride() == (1, 3)
    assert read.outputs[0].requires_grad
    assert torch.equal(read.cotangents[0], made.cotangents[0])
