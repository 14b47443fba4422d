"""Kinds of programs that public reports of wrong compilations are about: right ones are admitted, wrong ones found."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tensorfarm.gate import Outcome, certify
from tensorfarm.gate.attestation import Certificate

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(3))
INDEX = torch.tensor([[0, 0, 2, 2, 5, 5, 1, 1]])
Program = Callable[[torch.Tensor], Any]


def judged(original: Program, subject: Program, *, trains: bool = False) -> Certificate:
    class Applied(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return original(x)

    given = X.clone().requires_grad_(trains)
    return certify(Applied(), subject, (given,), mode="training" if trains else "inference", level="quick")


class Halved(torch.autograd.Function):
    """Half of the gradient is lost."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> torch.Tensor:
        return cotangents[0] / 2


SELECTS: dict[str, Program] = {
    "scatter_reduce": lambda x: x.scatter_reduce(0, INDEX, x[1:2], "amax", include_self=False),
    "index_reduce": lambda x: x.index_reduce(0, torch.tensor([0, 0, 3]), x[1:4], "amin"),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, ord=math.inf, dim=1),
    "norm": lambda x: x.norm(p=-math.inf),
    "aminmax": lambda x: torch.aminmax(x, dim=0),
    "nanmedian": lambda x: x.nanmedian(1).values,
}


@pytest.mark.parametrize("name", SELECTS)
def test_the_gradient_of_what_selects_is_decided(name: str) -> None:
    program = SELECTS[name]
    assert judged(program, program, trains=True).outcome is Outcome.ADMITTED
    wrong = judged(program, lambda x: program(Halved.apply(x)), trains=True)  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    assert wrong.outcome is Outcome.CONFORMANCE_FAILURE
    assert {item.check_name for item in wrong.findings if item.status.value == "fail"} == {"gradient"}


def _refuses_negative(x: torch.Tensor) -> torch.Tensor:
    if x.min() < 0:
        raise ValueError("all elements should be positive")
    return x * 2


def _detached_beside(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.sin()
    return y[:3], y[3:], y.detach()


def _all_detached(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(value.detach() for value in _detached_beside(x))


WRONG: dict[str, tuple[Program, Program, bool, str]] = {
    "an invalid input is answered": (_refuses_negative, lambda x: x * 2, False, "errors"),
    "no gradient comes of a view": (_detached_beside, _all_detached, True, "gradient"),
    "another shape": (lambda x: x.sum(1) + 1, lambda x: x.sum(1, keepdim=True) + 1, False, "metadata"),
    "floor of a rounded quotient": (lambda x: x // 0.1, lambda x: torch.floor(x / 0.1), False, "exact_integers"),
    "a sign of zero": (
        lambda x: torch.where(x > 0, x, -0.0),
        lambda x: torch.where(x > 0, x, 0.0),
        False,
        "special_values",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_kind_of_fault_is_found_by_the_family_whose_business_it_is(name: str) -> None:
    original, subject, trains, family = WRONG[name]
    verdict = judged(original, subject, trains=trains)
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    assert family in {item.check_name for item in verdict.findings if item.status.value == "fail"}
    if family != "errors":
        assert judged(original, original, trains=trains).outcome is Outcome.ADMITTED


@pytest.mark.parametrize("rest", [0.0, 1e-6])
def test_draws_that_come_to_nothing_are_decided_and_anything_beside_nothing_is_wrong(rest: float) -> None:
    def nothing(x: torch.Tensor) -> torch.Tensor:
        return torch.dropout(x, 1.0, train=True) * torch.rand(8)

    verdict = judged(nothing, lambda x: nothing(x) + rest, trains=True)
    assert verdict.outcome is (Outcome.CONFORMANCE_FAILURE if rest else Outcome.ADMITTED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.view_as_complex(x.view(6, 4, 2)).conj() * 2j,  # refuses memory that begins at an odd place
        lambda x: x.as_strided((5, 3), (8, 2), 1) * 2,
        lambda x: x * x.stride(0),
    ],
)
def test_a_program_that_reads_how_its_inputs_lie_is_held_to_what_it_gives_of_each_layout(program: Program) -> None:
    class Applied(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return program(x)

    assert certify(Applied(), program, (X.clone(),), level="standard").outcome is Outcome.ADMITTED

    def dense(x: torch.Tensor) -> Any:
        return program(x.contiguous())

    assert certify(Applied(), dense, (X.clone(),), level="standard").outcome is Outcome.CONFORMANCE_FAILURE
