"""The comparison of one tensor: what is within a budget, and what never is."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.numerics import Budget
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.agreement import BLOCK, agreement
from tensorfarm.gate.expectation import Expectation, Expected, load, save
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation
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
    # Where a perturbed run was special too nothing is decided: that is no pass either.
    if math.isinf(sigma):
        assert finding.status is Status.UNDECIDABLE
    else:
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


def test_a_check_that_said_nothing_is_said_to_have_waited_for_the_main_device() -> None:
    (silent,) = verdict_of([], ["forward"], device="cuda").findings
    assert (silent.device, silent.status, silent.message) == ("cuda", Status.NOT_RUN, "forward: it did not run")


def test_an_integer_that_noise_changes_is_not_required_and_if_all_are_so_nothing_is_decided() -> None:
    wanted, sigma = torch.tensor([4, 5, 6]), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    finding = compared(torch.tensor([4, 6, 6]), Expected(wanted, wanted, sigma))
    assert (finding.status, finding.n_elements) == (Status.PASS, 2)
    assert compared(torch.tensor([4, 6, 7]), Expected(wanted, wanted, sigma)).worst_index == (2,)
    assert compared(wanted, Expected(wanted, wanted, torch.ones(3).double())).status is Status.UNDECIDABLE


@pytest.mark.parametrize("position", [0, BLOCK - 1, BLOCK, 2 * BLOCK + 5])
@pytest.mark.parametrize("special", [False, True])
def test_a_fault_is_found_in_whatever_block_it_lies_and_beside_whatever_stands_there(
    position: int, special: bool
) -> None:
    exact = torch.linspace(1, 2, 2 * BLOCK + 7, dtype=torch.float64).reshape(-1, 1)
    if special:
        exact[-1] = math.inf
    seen = exact.float()
    seen[position] *= 1.001
    finding = compared(seen, expected(exact))
    assert (finding.status, finding.worst_index, finding.n_bad) == (Status.FAIL, (position, 0), 1)
    assert finding.n_elements == exact.numel()
    assert compared(exact.float(), expected(exact)).n_elements == exact.numel()


def test_flushed_subnormals_agree_only_where_the_contract_lets_them() -> None:
    exact = torch.tensor([1e-40, 1.0], dtype=torch.float64)
    flushed = torch.tensor([0.0, 1.0])
    assert compared(flushed, expected(exact)).status is Status.FAIL
    finding = agreement("forward", "output 0", flushed, expected(exact), BUDGET, 1, subnormals="flush_out")
    assert finding.status is Status.PASS


def test_complex_values_are_compared_part_by_part() -> None:
    exact = torch.tensor([1 + 1j, 2 - 1j], dtype=torch.complex128)
    wanted = Expected(exact.to(torch.complex64), exact, torch.zeros(2, 2, dtype=torch.float64))
    assert compared(exact.to(torch.complex64), wanted).status is Status.PASS
    assert compared((exact + 1e-3j).to(torch.complex64), wanted).worst_index[1:] == (1,)


CHECKS = ("identity", "metadata", "forward", "gradient")


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CHECKS), st.sampled_from(list(Status))), max_size=12))
def test_a_verdict_is_admitted_only_where_every_required_check_ran_and_passed(told: list[tuple[str, Status]]) -> None:
    findings = [Finding(check, "thing", status, "message") for check, status in told]
    verdict = verdict_of(findings, CHECKS)
    failed = {check for check, status in told if status is Status.FAIL}
    if "identity" in failed:
        assert verdict.outcome is Outcome.SEMANTIC_DRIFT
    elif failed:
        assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    elif set(CHECKS) <= {check for check, _ in told} and all(status is Status.PASS for _, status in told):
        assert verdict.outcome is Outcome.ADMITTED
    else:
        assert verdict.outcome is Outcome.UNDECIDED


def test_a_row_holds_no_number_that_json_cannot() -> None:
    row = Finding("forward", "output 0", Status.FAIL, "", math.inf, math.nan).row(seed=3)
    assert (row["observed_over_limit"], row["digits"], row["seed"]) == ("inf", "nan", 3)


def test_expectations_survive_their_file(tmp_path) -> None:
    tensors = {"output:0": torch.ones(2, 3).t(), "gradient:w": torch.ones(4)}
    wide = {key: value.double() for key, value in tensors.items()}
    sigma = {key: value * 1e-8 for key, value in wide.items()}
    eager = Observation(tensors, CallReport(literals={"1": "None"}))
    made = Expectation(eager, wide, sigma, {0: torch.ones(3, 2)}, frozenset({"buffer:mean"}), random=True)
    read = load(tmp_path / "kept", save(tmp_path / "kept", {"example": (made,)}))["example"][0]
    assert (read.random, read.changed, read.eager.report) == (True, frozenset({"buffer:mean"}), eager.report)
    found = read.expected("output:0")
    assert found is not None
    assert found.eager.stride() == (1, 3)
    assert found.sigma is not None
    assert torch.equal(found.sigma, sigma["output:0"])
    assert torch.equal(read.cotangents[0], made.cotangents[0])
    assert read.expected("output:7") is None


@pytest.mark.parametrize(
    ("original", "seen", "status"),
    [
        (0.0, 0.0, Status.UNDECIDABLE),
        (0.0, 1.0, Status.UNDECIDABLE),
        (0.0, 9.0, Status.FAIL),
        (0.6, 0.6, Status.PASS),
        (1.0, 1.0, Status.PASS),
    ],
)
def test_an_original_without_a_right_digit_in_one_element_leaves_the_tensor_in_doubt(
    original: float, seen: float, status: Status
) -> None:
    exact = torch.ones(BLOCK + 8, dtype=torch.float64)
    eager, given = exact.float(), exact.float()
    eager[BLOCK + 3], given[BLOCK + 3] = original, seen
    finding = compared(given, expected(exact, eager=eager))
    assert finding.status is status
    if status is Status.UNDECIDABLE:
        assert finding.message.startswith(f"output 0[{BLOCK + 3}]: the original gives 0 and its float64 value is 1")
        assert compared(given, expected(exact, 0.02, eager)).status is not Status.PASS
        assert compared(given, expected(exact, math.inf, eager)).message != finding.message
