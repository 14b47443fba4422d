"""What hangs on the order of a sum: infinities, signs of zeros, what a kernel errs by that adds one after the other."""

from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
from gate_contract import contract_with
from gate_evidence import evidence_of, failing
from gate_settings import randn, setting_of

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.checks import exact_integers, gradient, special_values
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.inputs import exact_integers as integers
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import reference_of_module
from tensorfarm.gate.setting import Level
from tensorfarm.gate.special_agreement import special_agreement
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial

Function = Callable[..., torch.Tensor]
CONTRACT = contract_with()
EVERY_DEPTH = pytest.mark.parametrize("depth", [Depth.EXACT, Depth.BUDGET])


class Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *leaves: torch.Tensor) -> torch.Tensor:
        return self.function(*leaves)


def expected_of(
    function: Function, *leaves: torch.Tensor, depth: Depth = Depth.BUDGET, derivative: Derivative = Derivative.NONE
) -> Mapping[str, Expected]:
    """Outputs and gradients by their keys, from the real oracle."""
    reference = reference_of_module(Applied(function), leaves, {})
    inputs = {f"args[{place}]": leaf for place, leaf in enumerate(leaves)}
    trial = Trial("example", (Call(inputs, derivative),), depth)
    (found,) = expectations(reference, [trial], CONTRACT, 0)["example"]
    kinds = ("output", "gradient")
    return {f"{kind}:{name}": value for kind in kinds for name, value in found.all_expected(kind)}


def alarms(seen: torch.Tensor, wanted: Expected) -> bool:
    """By the value or by what is special in it."""
    limits = (CONTRACT.outputs, CONTRACT.digits_undecidable_below)
    found = [special_agreement("special_values", "output 0", seen, wanted, CONTRACT, CONTRACT.outputs)]
    if wanted.sigma is not None and bool((wanted.sigma > 0).any()):
        found.append(agreement("forward", "output 0", seen, wanted, *limits))
    return any(finding.status is Status.FAIL for finding in found)


@EVERY_DEPTH
def test_a_sum_that_overflows_in_one_order_and_not_in_another_may_come_as_either(depth: Depth) -> None:
    terms = torch.tensor([3e38, 3e38, -3e38, 1.0])
    left, right = torch.tensor([[2e19, 2e19, -2e19, 1.0]]), torch.tensor([[1.5e19], [1.5e19], [1.5e19], [1.0]])
    for function, leaves in ((lambda x: x.sum(-1), (terms,)), (torch.matmul, (left, right))):
        wanted = expected_of(function, *leaves, depth=depth)["output:0"]
        for seen in (float("inf"), float("nan"), float(wanted.exact.flatten()[0])):
            assert not alarms(torch.full_like(wanted.eager, seen), wanted)


@EVERY_DEPTH
def test_an_infinity_that_every_order_gives_is_required_and_so_is_a_value_that_none_makes_one_of(depth: Depth) -> None:
    overflowing = expected_of(lambda x: x.sum(-1), torch.tensor([3e38, 3e38, -1.0]), depth=depth)["output:0"]
    assert alarms(torch.tensor(3e38), overflowing)
    assert not alarms(torch.tensor(torch.inf), overflowing)
    large = expected_of(lambda x: x.sum(-1), torch.tensor([1e38, 1e38, -3e38]), depth=depth)["output:0"]
    assert alarms(torch.tensor(-torch.inf), large)
    assert not alarms(large.eager, large)


def test_what_an_overflowing_sum_flows_into_is_not_required_and_what_is_beside_it_is() -> None:
    x = torch.tensor([[3e38, 3e38, -3e38], [1.0, 2.0, 3.0]])
    wanted = expected_of(lambda x: torch.softmax(x.sum(-1, keepdim=True) * torch.tensor([0.0, 1.0]), -1), x)["output:0"]
    broken = wanted.eager.clone()
    broken[0] = torch.nan
    assert not alarms(broken, wanted)
    broken[1, 1] = torch.nan
    assert alarms(broken, wanted)


@EVERY_DEPTH
def test_the_sign_of_a_zero_that_comes_of_a_sum_is_nobodys_at_any_depth_and_that_of_a_product_is(depth: Depth) -> None:
    zeros = torch.tensor([[-0.0, 0.0], [0.0, -0.0]])
    added = expected_of(lambda x: x.sum(-1), zeros, depth=depth)["output:0"]
    assert not alarms(-added.eager, added)
    assert alarms(zeros * -2.0, expected_of(lambda x: x * 2.0, zeros, depth=depth)["output:0"])


def batch_normed(eps: float = 1e-5) -> Function:
    weight, bias = randn(7).abs() + 0.5, randn(7)
    return lambda x: F.batch_norm(x, None, None, weight.to(x.dtype), bias.to(x.dtype), True, 0.1, eps)


def test_a_batch_norm_that_adds_one_place_after_the_other_is_honest_and_a_smaller_epsilon_is_not() -> None:
    x = (1 + 1e-3 * randn(5, 7, 11, 13)).requires_grad_()
    wanted = expected_of(batch_normed(), x, derivative=Derivative.VJP)
    cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    last = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    seen = batch_normed()(last)
    assert (seen.double() - wanted["output:0"].exact).abs().max() > 1e-5  # what a tree of sums does not err by
    assert not alarms(seen, wanted["output:0"])
    (found,) = torch.autograd.grad(seen, last, cotangent)
    (right,) = torch.autograd.grad(batch_normed()(x), x, cotangent)
    assert (found - right).abs().max() > 0
    assert alarms(batch_normed(1e-6)(x), wanted["output:0"])


def test_the_gradients_of_a_spelled_out_batch_norm_are_those_of_the_operator() -> None:
    x = randn(5, 7, 4, 5).double().requires_grad_()
    wanted = expected_of(batch_normed(), x, derivative=Derivative.VJP)["gradient:input:args[0]"]
    assert torch.allclose(wanted.exact, wanted.eager, rtol=1e-12, atol=1e-13)


class Scaled(torch.autograd.Function):
    """A softmax whose gradient has ``beside`` added."""

    @staticmethod
    def forward(x: torch.Tensor, beside: float) -> torch.Tensor:
        return torch.softmax(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(output)
        ctx.beside = inputs[1]

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        return y * (cotangent - (cotangent * y).sum(-1, keepdim=True)) + ctx.beside * y, None


@pytest.mark.parametrize(("beside", "statuses"), [(0.0, {"pass"}), (1e-3, {"fail"})])
def test_a_gradient_that_is_zero_but_for_rounding_is_decided_by_the_size_of_its_terms(beside, statuses) -> None:
    evidence = evidence_of(
        [gradient],
        Applied(lambda x: torch.softmax(x, -1)),
        [randn(5, 7).requires_grad_()],
        Applied(lambda x: Scaled.apply(x, beside)),
        mode="training",
        level=Level.STANDARD,
        changes={"gradients.cotangents": ["normal", "ones_expanded"], "gradients.forward_ad": "ignore"},
    )
    assert {finding.status.value for finding in gradient.check(evidence) if finding.required} == statuses


def in_blocks(x: torch.Tensor, y: torch.Tensor, kept: torch.dtype) -> torch.Tensor:
    """Partial sums over 8 terms, added up in ``kept``."""
    total = torch.zeros(x.shape[0], y.shape[1], dtype=kept)
    for one, other in zip(x.split(8, -1), y.split(8, 0), strict=True):
        total = (total.float() + one.float() @ other.float()).to(kept)
    return total.to(x.dtype) - 1


@pytest.mark.parametrize(("kept", "found"), [(torch.bfloat16, {"output 0"}), (torch.float32, set[str]())])
def test_sums_of_bfloat16_that_are_kept_in_it_are_found_and_those_kept_in_float32_are_not(kept, found) -> None:
    x, y = randn(17, 61).bfloat16(), randn(61, 13).bfloat16()
    evidence = evidence_of(
        [exact_integers, special_values],
        Applied(lambda x, y: x @ y - 1),
        [x, y],
        Applied(lambda x, y: in_blocks(x, y, kept)),
        level=Level.STANDARD,
    )
    assert failing(exact_integers, evidence) == found


def test_cancelling_integers_are_for_dtypes_that_are_narrower_than_their_sums() -> None:
    assert integers.cancelling_trial(setting_of({"x": randn(17, 61)})) is None
    trial = integers.cancelling_trial(setting_of({"x": randn(17, 61).bfloat16(), "y": randn(61, 13).bfloat16()}))
    assert trial is not None
    x, y = (value.double() for value in trial.calls[0].inputs.values())
    assert (x @ y).abs().max() <= 2**8 < (x[:, :30] @ y[:30]).abs().max()


def test_the_names_of_the_integer_trials_are_known_without_drawing_them() -> None:
    setting = setting_of({"x": randn(17, 61).bfloat16(), "y": randn(61, 13), "z": randn(3)})
    assert {trial.name for trial in integers.trials(setting)} <= set(integers.names(setting))


def test_a_subnormal_power_errs_by_a_half_of_the_smallest_number_and_what_is_made_of_it_by_as_many() -> None:
    x = torch.tensor([-100.0, -101.0, -1.0])
    wanted = expected_of(lambda x: torch.exp(x) * 50, x)["output:0"]
    assert wanted.sigma is not None
    step = torch.finfo(torch.float32).smallest_normal * torch.finfo(torch.float32).eps
    assert (wanted.sigma[:2] > 10 * step).all()
    assert wanted.sigma[2] < 1e-5
    assert not alarms((torch.exp(x) + step * torch.tensor([1.0, -1.0, 0.0])) * 50, wanted)
    assert alarms(wanted.eager * torch.tensor([0.0, 1.0, 1.0]), wanted)
