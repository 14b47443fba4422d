"""Integers that the example does not have: of the other sign, and too large for a narrower dtype."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tensorfarm.gate import certify
from tensorfarm.gate.attestation import Certificate

Function = Callable[..., torch.Tensor]
_COUNTS = torch.arange(1, 25).view(4, 6)
_TABLE = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))


def _certified(original: Function, subject: Function, *inputs: torch.Tensor) -> Certificate:
    return certify(original, subject, inputs, level="standard")


def _failed(verdict: Certificate) -> set[str]:
    return {finding.check_name for finding in verdict.findings if finding.status.value == "fail"}


@pytest.mark.parametrize(
    ("original", "subject"),
    [
        (lambda x: x // 5, lambda x: torch.div(x, 5, rounding_mode="trunc")),
        (lambda x: (x % 7).float(), lambda x: torch.fmod(x, 7).float()),
        (lambda x: x * x, lambda x: (x.int() * x.int()).long()),
        (lambda x: x.sum(1), lambda x: x.sum(1, dtype=torch.int32).long()),
    ],
    ids=["truncated quotient", "remainder of the dividend's sign", "product of 32 bits", "sum of 32 bits"],
)
def test_what_only_other_integers_show_is_a_failure_of_integers(original: Function, subject: Function) -> None:
    assert _failed(_certified(original, subject, _COUNTS)) == {"integers"}
    assert _certified(original, original, _COUNTS).outcome == "admitted"


def test_a_place_that_is_counted_from_the_end_is_tried_where_the_original_takes_it() -> None:
    def original(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return table[at] * 2

    def subject(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return table[at.clamp(min=0)] * 2

    inputs = _TABLE, _COUNTS - 1
    assert _failed(_certified(original, subject, *inputs)) == {"integers"}
    assert _certified(original, original, *inputs).outcome == "admitted"


def _counted(x: torch.Tensor) -> torch.Tensor:
    while int(x.sum()) != 0:
        x = (x - 1).clamp(min=0)
    return x


def _labelled(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    lengths = torch.full((2,), 8), torch.full((2,), 3)
    return functional.ctc_loss(scores.log_softmax(-1), targets, *lengths)


@pytest.mark.parametrize(
    ("original", "inputs"),
    [
        (lambda x: functional.embedding(x, _TABLE).sum(-1), (_COUNTS - 1,)),
        (lambda x: functional.one_hot(x).float(), (_COUNTS,)),
        (lambda x: torch.bincount(x.view(-1)).float(), (_COUNTS,)),
        (_counted, (_COUNTS,)),
        (_labelled, (torch.randn(8, 2, 5), torch.tensor([[1, 2, 3], [2, 1, 4]]))),
        (lambda x, n: torch.arange(int(n)) * x[:, :1], (_COUNTS, torch.tensor(3))),
    ],
    ids=["embedding", "one-hot", "counts", "a loop until zero", "labels that nobody checks", "a length"],
)
def test_places_counts_and_lengths_are_left_as_they_are(original: Function, inputs: tuple[torch.Tensor, ...]) -> None:
    def subject(*given: torch.Tensor) -> torch.Tensor:
        if any(bool((value < 0).any()) for value in given if not value.is_floating_point()):
            raise AssertionError("nobody asked the original for this")
        return original(*given)

    verdict = _certified(original, subject, *inputs)
    assert verdict.outcome == "admitted", verdict.message
