"""Honest programs that were refused or left undecided, each beside the nearest fault that must still be found."""

import math
from functools import partial

import pytest
import torch
from gate_checked_models import Cubed, seeded
from gate_evidence import evidence_of, failing, statuses, survives
from torch import nn
from torch.nn import functional

from tensorfarm.contract.numerics import Budget, parse_contract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate import certify
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.checks import (
    derivatives,
    determinism,
    equal_programs,
    errors,
    exact_integers,
    forward,
    gradient,
    integers,
)
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.library import contract_fields
from tensorfarm.gate.noise import Noise, Perturbed
from tensorfarm.gate.operator_classes import Watched
from tensorfarm.gate.rounding import ACCUMULATED
from tensorfarm.gate.setting import Level
from tensorfarm.gate.special_agreement import special_agreement

BUDGET = Budget(c=4, k=10)
ANY = {"numerics.dtypes": {"inputs": "any", "params": "any", "outputs": "any"}}
CONTRACT = parse_contract(contract_fields(None))
SMALLEST = 2.0**-149
HALF = 2.0**-8


class Attention(nn.Module):
    """The fused operator has no second derivative on a CPU; written out it has."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fused:
            return functional.scaled_dot_product_attention(x, x, x)
        return torch.softmax(x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1]), -1) @ x


def test_an_answer_where_the_original_lacks_a_derivative_is_no_fault_and_one_where_it_refuses_is() -> None:
    inputs, second = [seeded(2, 2, 3, 2).requires_grad_()], {"gradients.forward_ad": "ignore"}
    families = [errors, derivatives]
    lacking = evidence_of(families, Attention(True), inputs, Attention(False), mode="training", changes=second)
    assert lacking.expected[derivatives.SECOND][0].eager.report.error
    assert not failing(errors, lacking)
    assert any("no implementation" in finding.message for finding in errors.check(lacking))
    refusing = evidence_of(families, Cubed("refused"), inputs, Cubed(), mode="training", changes=second)
    assert failing(errors, refusing) == {derivatives.SECOND}


def test_a_repeated_result_that_begins_with_nan_has_a_canary() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.log()

    inputs = [torch.tensor([-1.0, 2.0, 3.0])]
    evidence = evidence_of([determinism], First(), inputs, level=Level.STANDARD)
    assert statuses(determinism, evidence) == {"pass"}
    assert survives(determinism, evidence)


def test_extrema_at_ties_are_decided_in_a_form_that_changes_no_bit() -> None:
    class Largest(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.amax(-1)

    inputs = [torch.randint(-3, 3, (6, 7), generator=torch.Generator().manual_seed(0)).float().requires_grad_()]
    evidence = evidence_of([equal_programs], Largest(), inputs, mode="training")
    assert statuses(equal_programs, evidence) == {"pass"}


def test_nan_is_no_fault_where_no_digit_of_the_original_is_right_and_one_where_a_digit_is() -> None:
    exact = torch.tensor([1.7e24, 2.0, 3.0], dtype=torch.float64)
    eager, seen = torch.tensor([0.0, 2.0, 3.0]), torch.tensor([math.nan, 2.0, 3.0])
    lost = Expected(eager, exact, torch.zeros_like(exact))
    assert agreement("forward", "output 0", seen, lost, BUDGET, 1).status is Status.UNDECIDABLE
    assert special_agreement("special_values", "output 0", seen, lost, CONTRACT, BUDGET).status is Status.PASS
    right = Expected(torch.tensor([1.6e24, 2.0, 3.0]), exact, torch.zeros_like(exact))
    assert agreement("forward", "output 0", seen, right, BUDGET, 1).status is Status.FAIL
    assert special_agreement("special_values", "output 0", seen, right, CONTRACT, BUDGET).status is Status.FAIL


@pytest.mark.parametrize(("steps", "status"), [(4, Status.PASS), (5, Status.FAIL)])
def test_a_subnormal_result_may_err_by_as_many_roundings_as_a_normal_one(steps: int, status: Status) -> None:
    exact = torch.full((3,), 1318 * SMALLEST, dtype=torch.float64)
    seen = (exact + torch.tensor([0, steps * SMALLEST, 0])).float()
    wanted = Expected(exact.float(), exact, torch.zeros_like(exact))
    assert agreement("derivatives", "tangent 0", seen, wanted, BUDGET, 1).status is status


def _noised(call, *operands: torch.Tensor, kept: str) -> torch.Tensor:
    """The spread of sixteen perturbed runs."""
    noise, runs = Noise(HALF, 0, accumulate={"default": "float32", "bfloat16": kept}), []
    for seed in range(16):
        noise.restart(seed)
        with Perturbed(noise):
            runs.append(call(*operands))
    return torch.stack(runs).std(0)


def test_sums_kept_wide_by_contract_err_by_the_rounding_of_their_result_alone() -> None:
    left, right = seeded(9, 61).double(), seeded(61, 7).double()
    size = (left @ right).square().mean().sqrt()
    wide, narrow = (
        _noised(torch.mm, left, right, kept=kept).square().mean().sqrt() for kept in ("float32", "bfloat16")
    )
    assert wide < 1.3 * HALF * size
    assert narrow > 3 * HALF * size
    assert {"mm", "sum", "mean", "convolution"} <= ACCUMULATED.keys()


def test_a_bias_that_cancels_a_product_keeps_the_rounding_of_the_product() -> None:
    left, right = seeded(4, 8).double(), seeded(8, 4).double()
    bias = -(left @ right)
    spread = _noised(torch.addmm, bias, left, right, kept="float32")
    assert torch.all(spread > 0.3 * HALF * bias.abs())


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).half().float() * 3


def test_a_tangent_through_a_cast_has_the_spread_of_the_cast() -> None:
    inputs = [seeded(5, 17).requires_grad_()]
    evidence = evidence_of([derivatives], Halved(), inputs, mode="training", changes=ANY)
    assert statuses(derivatives, evidence) == {"pass"}
    with Watched() as watched:
        assert watched.way_to(torch._efficientzerotensor(3)) == frozenset()


def test_a_higher_derivative_that_cannot_be_decided_keeps_nothing_from_being_admitted() -> None:
    class Steep(nn.Module):
        def __init__(self, factor: float = 1.0) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.gelu(torch.softmax(functional.gelu(x), -1)).log() * self.factor

    inputs = [seeded(5, 17).bfloat16().requires_grad_()]
    evidence = evidence_of([derivatives], Steep(), inputs, mode="training", changes=ANY)
    found = [item for item in derivatives.check(evidence) if item.status is Status.UNDECIDABLE]
    assert any(item.what.startswith("gradient of gradients") for item in found)
    assert not any(item.required for item in found if not item.what.startswith("gradient args"))
    wrong = evidence_of([derivatives], Steep(), inputs, Steep(40.0), mode="training", changes=ANY)
    assert failing(derivatives, wrong)


class Drawing(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = functional.dropout(x, 0.3)
        return kept[:1].expand_as(kept) * 2 if self.fault else kept * 2


def test_a_wrong_value_of_a_program_that_draws_is_found_by_forward_and_by_gradient() -> None:
    inputs = [seeded(6, 8).requires_grad_()]
    evidence = evidence_of([forward, gradient], Drawing(), inputs, Drawing("first row"), mode="training")
    assert failing(forward, evidence)
    assert failing(gradient, evidence)
    honest = evidence_of([forward, gradient], Drawing(), inputs, mode="training")
    for family in (forward, gradient):
        assert statuses(family, honest) == {"pass"}
        assert survives(family, honest)


class Mean(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.fault:
            case "":
                return x.mean(0) * 61
            case "reciprocal":
                return x.sum(0) * (1 / x.shape[0]) * 61
            case _:
                return x.bfloat16().cumsum(0)[-1].float() / x.shape[0] * 61


def test_a_mean_by_a_reciprocal_is_as_exact_as_one_by_a_quotient_and_one_of_coarse_sums_is_not() -> None:
    inputs = [seeded(61, 13)]
    honest = evidence_of([exact_integers], Mean(), inputs, Mean("reciprocal"))
    assert statuses(exact_integers, honest) == {"pass"}
    assert survives(exact_integers, honest)
    assert failing(exact_integers, evidence_of([exact_integers], Mean(), inputs, Mean("coarse")))


class Rounded(nn.Module):
    def __init__(self, away: bool = False) -> None:
        super().__init__()
        self.away = away

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x * 3
        return ((value.abs() + 0.5).floor() * value.sign() if self.away else value.round()).to(torch.int32)


def test_a_tie_after_an_exact_product_is_decided() -> None:
    inputs = [seeded(5, 17)]
    evidence = evidence_of([integers], Rounded(), inputs, Rounded(away=True))
    assert {item.input_suite for item in integers.check(evidence) if item.status is Status.FAIL} == {"ties"}
    assert not failing(integers, evidence_of([integers], Rounded(), inputs))


def test_a_tie_that_came_by_luck_among_sums_asks_for_no_one_rounding() -> None:
    """A bias that is added to the rounded product errs by a unit where its fused sum is a tie."""
    for seed in (0, 2):
        torch.manual_seed(seed)
        layer, x = nn.Linear(16, 32).bfloat16(), torch.randn(8, 16).bfloat16()
        verdict = certify(layer, partial(_added_apart, layer), (x,), contract="bfloat16", mode="inference")
        assert verdict.outcome == "admitted", verdict.message


def _added_apart(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return x @ layer.weight.t() + layer.bias


class Stepped(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), x.detach().floor() * 2


def test_tangents_that_are_zeros_without_memory_are_zeros() -> None:
    """Forward mode gives such a one for what no input reaches."""
    inputs = (torch.linspace(-2.0, 2.0, 7).requires_grad_(),)
    evidence = evidence_of([derivatives], Stepped(), inputs, mode="training", changes=ANY)
    tangents = [value for item in evidence.ran("forward_mode") for value in item.named("tangent").values()]
    assert tangents
    assert not any(value._is_zerotensor() for value in tangents)
    assert statuses(derivatives, evidence) == {Status.PASS}
