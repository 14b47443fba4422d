"""Value families on real oracles: each finds the fault that is its own, and raises no alarm on the honest form."""

import importlib
from functools import cache
from types import ModuleType

import pytest
import torch
from gate_checked_models import Elementwise, Mixed, Product, seeded
from gate_evidence import evidence_of, failing, statuses, survives
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.exchange import CallReport
from tensorfarm.gate.checks import conditioning, exact_integers, forward, integers, special_values
from tensorfarm.gate.compared import differing
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.planted import integer_step, past_its_limit
from tensorfarm.gate.setting import Level

FAMILIES = (
    "forward",
    "integers",
    "special_values",
    "exact_integers",
    "conditioning",
    "gradient",
    "derivatives",
    "zero_influence",
    "equal_programs",
    "output_set",
    "layouts",
    "batch_invariance",
    "ladder",
    "promotion",
)
EVERYTHING = {"determinism.batch_invariant": True, "gradients.forward_ad": "ignore"}


def family(name: str) -> ModuleType:
    return importlib.import_module(f"tensorfarm.gate.checks.{name}")


@pytest.fixture(scope="module")
def honest() -> Evidence:
    """Every family's evidence of a subject that is the original."""
    return evidence_of(map(family, FAMILIES), Mixed(), Mixed.inputs(), mode="training", changes=EVERYTHING)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_original_judged_against_itself_passes_and_its_canary_is_killed(name: str, honest: Evidence) -> None:
    # A row alone is another matrix product: the original itself is not batch invariant, and the family says so.
    expected = {"pass"} if name != "batch_invariance" else {"pass", "fail"}
    assert statuses(family(name), honest) == expected
    assert survives(family(name), honest)


def test_one_lane_off_by_a_hundred_thousandth_is_found() -> None:
    evidence = evidence_of([forward], Mixed(), Mixed.inputs(), Mixed("one lane"), level=Level.QUICK)
    finding = next(item for item in forward.check(evidence) if item.status.value == "fail")
    assert (finding.what, finding.worst_index[1], finding.n_bad) == ("output 0", 2, 4)


def test_nothing_compared_is_no_pass() -> None:
    evidence = evidence_of([forward], Elementwise("clamp"), [torch.zeros(0, 3)], level=Level.QUICK)
    assert "not_run" in statuses(forward, evidence)
    only_integers = evidence_of([forward], Elementwise("round"), [seeded(3)], level=Level.QUICK)
    assert statuses(forward, only_integers) == set()


def test_a_call_that_raised_is_left_to_the_errors() -> None:
    class Refuses(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("planted")

    evidence = evidence_of([forward], Elementwise("clamp"), [seeded(3)], Refuses(), level=Level.QUICK)
    assert statuses(forward, evidence) == set()


def test_integers_of_a_program_that_draws_random_numbers_are_left_to_its_own_family() -> None:
    evidence = evidence_of([forward, integers], torch.nn.Dropout(), [seeded(8)], level=Level.QUICK)
    assert {(item.status.value, item.required) for item in integers.check(evidence)} == {("not_run", False)}
    assert statuses(forward, evidence) == {"pass"}


def test_rounding_half_away_from_zero_is_found_on_ties_in_integers_and_in_a_cast() -> None:
    evidence = evidence_of([integers], Elementwise("round"), [seeded(9, 5)], Elementwise("round", "round half away"))
    assert failing(integers, evidence) == {"output 0"}
    evidence = evidence_of([special_values], Elementwise("cast"), [seeded(9, 5)], Elementwise("cast", "cast half away"))
    assert failing(special_values, evidence) == {"output 0"}


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        ("maximum with zero", "comparison with zero"),
        ("negation", "taken from zero"),
        ("clamp", "clamp without NaN"),
        ("times zero", "zero"),
        ("log1p", "log of one more"),
        ("softmax", "softmax without maximum"),
    ],
)
def test_a_special_value_that_is_treated_otherwise_is_found(op: str, fault: str) -> None:
    evidence = evidence_of([special_values], Elementwise(op), [seeded(9, 5)], Elementwise(op, fault))
    assert failing(special_values, evidence) == {"output 0"}
    assert statuses(special_values, evidence_of([special_values], Elementwise(op), [seeded(9, 5)])) == {"pass"}


def test_signs_of_zeros_are_left_alone_where_the_contract_ignores_them() -> None:
    original, faulty = Elementwise("negation"), Elementwise("negation", "taken from zero")
    inputs = [torch.tensor([[-0.0, 0.0, 1.0]])]
    for rule, found in (("exact", {"output 0"}), ("ignore", set[str]())):
        changes = {"numerics.signed_zero": rule}
        evidence = evidence_of([special_values], original, inputs, faulty, level=Level.QUICK, changes=changes)
        assert failing(special_values, evidence) == found


def test_accumulation_in_bfloat16_is_found_on_exact_integers_and_another_order_is_not() -> None:
    inputs = (seeded(5, 40), seeded(40, 3))
    evidence = evidence_of([exact_integers], Product(), inputs, Product("bfloat16"), level=Level.QUICK)
    assert failing(exact_integers, evidence) == {"output 0"}
    evidence = evidence_of([exact_integers], Product(), inputs, Product("blocked"), level=Level.QUICK)
    assert statuses(exact_integers, evidence) == {"pass"}


def test_a_program_that_rounds_on_integers_has_nothing_exact_to_compare() -> None:
    class Probabilities(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.softmax(-1).sum(-1), (x / 7).sin()

    evidence = evidence_of([exact_integers], Probabilities(), [seeded(6, 5)], level=Level.QUICK)
    assert statuses(exact_integers, evidence) == set()


def test_a_smaller_epsilon_is_found_at_small_scale_and_not_at_a_large_one() -> None:
    original, faulty = Elementwise("normalised"), Elementwise("normalised", "normalised with less")
    evidence = evidence_of([conditioning], original, [seeded(9, 5) * 1000], faulty)
    suites = {item.input_suite for item in conditioning.check(evidence) if item.status.value == "fail"}
    assert "small_scale" in suites
    assert "normal" not in suites


def test_a_made_up_input_that_decides_nothing_keeps_nothing_from_being_admitted() -> None:
    class Chaotic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 1e7).sin()

    evidence = evidence_of([conditioning], Chaotic(), [seeded(9, 5)])
    undecided = [item for item in conditioning.check(evidence) if item.status.value == "undecidable"]
    assert undecided
    assert not any(item.required for item in undecided)


def test_an_index_may_differ_only_where_noise_moves_it() -> None:
    eager = torch.tensor([1, 2, 3])
    stable = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    evidence = _of_one_output(Expected(eager, eager.clone(), stable), torch.tensor([1, 2, 4]))
    assert statuses(integers, evidence) == {"pass"}
    evidence = _of_one_output(Expected(eager, eager.clone(), stable), torch.tensor([1, 3, 3]))
    assert failing(integers, evidence) == {"output 0"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9), st.floats(0, 1e30))
def test_the_forward_canary_is_killed_whatever_the_values(values: list[float], sigma: float) -> None:
    exact = torch.tensor(values, dtype=torch.float64)
    evidence = _of_one_output(Expected(exact.float(), exact, torch.full_like(exact, sigma)), exact.float())
    change = past_its_limit(evidence.setting.contract)
    if change(Expected(exact.float(), exact, torch.full_like(exact, sigma)), exact.float()) is not None:
        assert survives(forward, evidence) == {"output 0"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 255), min_size=1, max_size=9), st.sampled_from([torch.uint8, torch.int64, torch.bool]))
def test_the_integer_canary_changes_one_element(values: list[int], dtype: torch.dtype) -> None:
    eager = torch.tensor(values).to(dtype)
    changed = integer_step(Expected(eager, eager.clone()), eager)
    assert changed is not None
    assert int((changed != eager).sum()) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=9))
def test_a_tensor_differs_from_itself_nowhere_and_from_its_negative_everywhere_but_in_nan(values: list[float]) -> None:
    tensor = torch.tensor(values)
    assert not bool(differing(tensor, tensor.clone()).any())
    assert torch.equal(differing(tensor, -tensor), ~tensor.isnan())


@cache
def _one_call() -> Evidence:
    return evidence_of([forward], Elementwise("clamp"), [torch.ones(1)], level=Level.QUICK)


def _of_one_output(expected: Expected, seen: torch.Tensor) -> Evidence:
    """Evidence of a single call, made by hand."""
    evidence, report = _one_call(), CallReport()
    wanted = Expectation(
        Observation({"output:0": expected.eager}, report),
        exact={"output:0": expected.exact},
        sigma={} if expected.sigma is None else {"output:0": expected.sigma},
    )
    given = Observation({"output:0": seen}, report)
    return Evidence(evidence.setting, evidence.trials, {"example": (wanted,)}, {"main": {"example": (given,)}})
