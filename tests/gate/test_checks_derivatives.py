"""Gradients, gradients of gradients and forward mode on real oracles: forward passes are right in all of these."""

import pytest
import torch
from gate_checked_models import Cubed, Maximum, Mixed, seeded
from gate_evidence import evidence_of, failing, statuses

from tensorfarm.gate.checks import derivatives, forward, gradient
from tensorfarm.gate.setting import Facts, Level

NO_FORWARD_MODE = {"gradients.forward_ad": "ignore"}


def judged(fault: str, level: Level = Level.FULL, x: torch.Tensor | None = None):
    inputs = [(seeded(3, 4) if x is None else x).requires_grad_()]
    return evidence_of(
        [forward, gradient, derivatives],
        Cubed(),
        inputs,
        Cubed(fault),
        mode="training",
        level=level,
        changes=NO_FORWARD_MODE,
    )


@pytest.mark.parametrize("fault", ["scaled", "none"])
def test_a_gradient_that_is_wrong_or_missing_is_found_where_the_forward_pass_is_right(fault: str) -> None:
    evidence = judged(fault, Level.QUICK)
    assert failing(gradient, evidence) == {"gradient args[0]"}
    assert not failing(forward, evidence)


def test_a_backward_pass_that_forgets_a_cotangent_of_stride_zero_is_found_by_that_cotangent() -> None:
    assert not failing(gradient, judged("expanded", Level.QUICK))
    found = [item for item in gradient.check(judged("expanded", Level.STANDARD)) if item.status.value == "fail"]
    assert found


def test_a_backward_pass_that_assumes_its_outputs_strides_is_found_by_a_transposed_cotangent() -> None:
    assert not failing(gradient, judged("strides of the example", Level.QUICK))
    assert failing(gradient, judged("strides of the example", Level.STANDARD)) == {"gradient args[0]"}


def test_a_gradient_where_the_reference_has_none_is_found() -> None:
    class Detached(torch.nn.Module):
        def __init__(self, stops: bool) -> None:
            super().__init__()
            self.stops = stops

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * (y.detach() if self.stops else y)

    inputs = [seeded(3).requires_grad_(), seeded(3).requires_grad_()]
    evidence = evidence_of(
        [gradient], Detached(True), inputs, Detached(False), mode="training", level=Level.QUICK, changes=NO_FORWARD_MODE
    )
    assert failing(gradient, evidence) == {"gradient args[1]"}


def test_the_gradient_of_a_tie_goes_where_the_reference_sends_it() -> None:
    inputs = [seeded(6, 5).requires_grad_()]
    evidence = evidence_of([gradient], Maximum(), inputs, Maximum("to all"), mode="training")
    found = {item.input_suite for item in gradient.check(evidence) if item.status.value == "fail"}
    assert found == {"ties"}


def test_nothing_to_differentiate_is_no_pass_and_inference_is_not_asked() -> None:
    evidence = evidence_of([gradient], Cubed(), [seeded(3)], mode="training", level=Level.QUICK)
    assert statuses(gradient, evidence) == {"not_run"}
    assert statuses(gradient, evidence_of([gradient], Cubed(), [seeded(3)], level=Level.QUICK)) == set()


def test_a_second_derivative_that_is_gone_without_a_word_is_found() -> None:
    evidence = judged("no second order")
    assert not failing(gradient, evidence)
    assert failing(derivatives, evidence) == {"gradient of gradients args[0]"}


def test_a_second_derivative_that_is_refused_passes_and_says_so() -> None:
    found = [item for item in derivatives.check(judged("refused")) if item.required]
    assert [(item.status.value, item.message) for item in found] == [("pass", "second_order: refused")]


def test_what_has_no_backward_pass_is_not_asked_for_derivatives() -> None:
    evidence = evidence_of(
        [gradient, derivatives], Mixed(), Mixed.inputs(), mode="training", facts=Facts("aoti", trainable=False)
    )
    assert not evidence.trials
    assert statuses(gradient, evidence) | statuses(derivatives, evidence) == set()
