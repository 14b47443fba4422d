"""Outputs that are no tensors: what is named by its text is compared by it, and what holds tensors is never passed."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
import torch

from tensorfarm.gate import Certificate, Outcome, certify
from tensorfarm.gate.opaque import holds_tensors, words_of

X = torch.linspace(-1, 1, 3)


class Head(Enum):
    LEFT = 1
    RIGHT = 2


@dataclass
class Answer:
    value: Any


@dataclass(slots=True)
class Slotted:
    value: Any


class Returning(torch.nn.Module):
    def __init__(self, other: Any) -> None:
        super().__init__()
        self.other = other

    def forward(self, x: torch.Tensor) -> Any:
        return x * 2, self.other


def judged(original: Any, compiled: Any) -> Certificate:
    return certify(Returning(original), Returning(compiled), (X,), level="quick")


PAIRS = [
    (torch.float32, torch.float64),
    (torch.device("cpu"), torch.device("meta")),
    (torch.Size([3]), torch.Size([4])),
    (Head.LEFT, Head.RIGHT),
    (slice(1, 2), slice(1, 3)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_is_named_by_its_text_is_compared_by_it(one: Any, other: Any) -> None:
    assert judged(one, one).outcome is Outcome.ADMITTED
    assert [finding.what for finding in judged(one, other).of_check("metadata") if finding.message] == ["output 1"]


@pytest.mark.parametrize("kind", [Answer, Slotted])
@pytest.mark.parametrize("held", [X, [{"x": X}], Answer(Answer(X))])
def test_tensors_in_an_object_that_nobody_can_look_into_are_never_passed(kind: Any, held: Any) -> None:
    verdict = judged(kind(held), kind(held))
    assert (verdict.outcome, verdict.kind) == (Outcome.UNDECIDED, "not_run")
    assert "output 1 of the original is" in verdict.message
    assert "register the class" in verdict.message


@pytest.mark.parametrize("other", [Answer("words"), Answer, print, None, object()])
def test_an_object_without_tensors_keeps_nothing_from_being_passed(other: Any) -> None:
    assert judged(other, other).outcome is Outcome.ADMITTED


def test_an_input_whose_tensors_nobody_can_look_at_is_told_before_anything_runs() -> None:
    """Nobody would see a write to it, and no other values could be given."""

    class Taking(torch.nn.Module):
        def forward(self, answer: Answer) -> torch.Tensor:
            return answer.value * 2

    module = Taking()
    verdict = certify(module, module.forward, (Answer(X),), level="quick")
    assert verdict.outcome is Outcome.UNDECIDED
    assert "Answer that holds tensors>, which can be neither copied nor looked at" in verdict.message


def test_a_tensor_where_words_were_expected_is_told_in_one_line() -> None:
    (told,) = [finding.message for finding in judged("done", X).of_check("metadata") if finding.message]
    assert told == "output 1: expected 'done', seen a tensor"


def test_only_words_of_an_object_say_that_it_holds_tensors() -> None:
    assert holds_tensors(words_of(Answer(X)))
    assert not holds_tensors("a shelf that holds tensors>")
    assert not holds_tensors(3)
