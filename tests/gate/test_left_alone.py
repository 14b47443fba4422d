"""What a subject leaves behind beside its answers: in memory that it hands out twice, in parameters, in its process."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tensorfarm.gate import certify
from tensorfarm.gate.attestation import Certificate

Side = Callable[[nn.Linear, torch.Tensor], object]


def _certified(forward: Callable[[nn.Linear, torch.Tensor], torch.Tensor], level: str = "standard") -> Certificate:
    """A layer against a module that is made of it, and answers with ``forward``."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 5).eval()

    class Subject(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return forward(self, input)

    subject = Subject(6, 5).eval()
    subject.weight, subject.bias = layer.weight, layer.bias
    return certify(layer, subject, (torch.randn(4, 6),), level=level)


def _plain(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.linear(x, layer.weight, layer.bias)


def _failed(verdict: Certificate) -> set[str]:
    return {finding.check_name for finding in verdict.findings if finding.status.value == "fail"}


def test_an_output_that_the_next_call_overwrites_is_a_failure() -> None:
    places: dict[torch.Size, torch.Tensor] = {}

    def reuses(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        answer = _plain(layer, x)
        return places.setdefault(answer.shape, torch.empty_like(answer)).copy_(answer)

    verdict = _certified(reuses)
    assert "mutation" in _failed(verdict)
    assert "a later call wrote to its memory" in verdict.message


def test_a_buffer_that_the_original_hands_out_too_is_no_failure() -> None:
    class Running(nn.Module):
        mean: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mean.mul_(0.5).add_(x.mean(0))

    module = Running().eval()
    assert certify(module, module, (torch.randn(4, 6),)).outcome == "admitted"


def test_an_output_that_is_a_parameter_where_the_originals_is_a_copy_is_a_failure() -> None:
    class Scaled(nn.Module):
        def __init__(self, *, copied: bool) -> None:
            super().__init__()
            self.scale, self.copied = nn.Parameter(torch.ones(6)), copied

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * self.scale, self.scale.detach().clone() if self.copied else self.scale.detach()

    original, subject = Scaled(copied=True).eval(), Scaled(copied=False).eval()
    subject.scale = original.scale
    verdict = certify(original, subject, (torch.randn(4, 6),), level="quick")
    assert "mutation" in _failed(verdict)
    assert certify(subject, original, (torch.randn(4, 6),), level="quick").outcome == "admitted"


@pytest.mark.parametrize(
    "side",
    [
        lambda layer, x: layer.bias.requires_grad_(requires_grad=False),
        lambda layer, x: setattr(layer.bias, "grad", torch.ones(5)),
        lambda layer, x: layer.bias.detach().mul_(1.001),
        lambda layer, x: x.requires_grad_(),
    ],
    ids=["requires_grad", "grad", "values", "requires_grad of the input"],
)
def test_what_is_done_to_a_parameter_or_to_an_inputs_flags_is_seen_at_the_quick_level(side: Side) -> None:
    def meddles(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        answer = _plain(layer, x)
        side(layer, x)
        return answer.detach()

    assert "mutation" in _failed(_certified(meddles, "quick"))


@pytest.mark.parametrize(
    "side",
    [
        lambda: torch.set_grad_enabled(mode=True),
        lambda: random.seed(3),
        lambda: torch.backends.cuda.enable_math_sdp(enabled=False),
        lambda: torch.set_default_device("meta"),
    ],
    ids=["gradient mode", "Python's random numbers", "kind of attention", "default device"],
)
def test_what_a_call_leaves_in_its_process_is_seen(side: Callable[[], object]) -> None:
    kept = torch.backends.cuda.math_sdp_enabled()

    def meddles(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        answer = _plain(layer, x)
        side()
        return answer

    try:
        assert "process_state" in _failed(_certified(meddles))
    finally:
        torch.backends.cuda.enable_math_sdp(kept)


def test_who_is_wrong_in_the_second_call_alone_is_found_by_live_objects_too() -> None:
    calls: list[int] = []

    def counts(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return _plain(layer, x) * (1.01 if len(calls) == 2 else 1.0)

    assert _certified(counts).outcome == "conformance_failure"


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (lambda given, x: given["seen"].append(x.sum()), "['seen'][1]"),
        (lambda given, x: given["seen"].pop(), "['seen'][0]"),
        (lambda given, x: given.update(scale=3.0), "['scale']"),
        (lambda given, x: given.update(bias=given["bias"] + 1), "['bias']"),
        (lambda given, x: given["bias"].add_(1), "bias"),
    ],
    ids=["appended", "popped", "number replaced", "tensor replaced", "tensor written to"],
)
def test_what_is_put_into_an_arguments_container_is_the_originals_to_say(
    effect: Callable[[dict[str, Any], torch.Tensor], object], said: str
) -> None:
    def pure(given: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        return x * given["scale"] + given["bias"]

    def writing(given: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        answer = pure(given, x)
        effect(given, x)
        return answer

    inputs = ({"seen": [torch.ones(2)], "scale": 2.0, "bias": torch.ones(6)}, torch.randn(4, 6))
    for original, subject in ((pure, writing), (writing, pure)):
        verdict = certify(original, subject, inputs, level="quick")
        assert _failed(verdict) == {"mutation"}
        assert said in verdict.message
    assert certify(writing, writing, inputs, level="quick").outcome == "admitted"


def test_what_is_put_into_an_arguments_container_has_the_originals_value() -> None:
    def keeping(factor: float) -> Callable[[list[torch.Tensor], torch.Tensor], torch.Tensor]:
        def keep(cache: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            cache.append(x.exp() * factor)
            return x + 1

        return keep

    inputs = ([torch.ones(2)], torch.randn(4, 6))
    assert _failed(certify(keeping(1.0), keeping(1.0001), inputs, level="quick")) == {"mutation"}
    assert certify(keeping(1.0), keeping(1.0), inputs, level="quick").outcome == "admitted"
