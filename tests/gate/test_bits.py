"""Programs that read numbers by their bits: the oracle answers for the dtype that was meant, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tensorfarm.gate import Outcome, certify
from tensorfarm.gate.attestation import Certificate

X = torch.linspace(0.3, 3, 12).view(3, 4)


def judged(original: Callable[..., Any], subject: Callable[..., Any], *inputs: torch.Tensor) -> Certificate:
    class Applied(nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return original(*args)

    return certify(Applied(), subject, tuple(value.clone() for value in inputs), level="quick")


def exponent(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) >> 23) - 127


def inverse_root(x: torch.Tensor) -> torch.Tensor:
    guess = (0x5F3759DF - (x.view(torch.int32) >> 1)).view(torch.float32)
    return guess * (1.5 - 0.5 * x * guess * guess)


def rounded(x: torch.Tensor) -> torch.Tensor:
    """To bfloat16, ties to even."""
    bits = x.view(torch.int32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).view(torch.float32)


@pytest.mark.parametrize(
    ("original", "wrong"),
    [
        (exponent, lambda x: (x.view(torch.int32) >> 22) - 127),
        (inverse_root, lambda x: inverse_root(x) * (1 + 1e-4)),
        (rounded, lambda x: (x.view(torch.int32) & -0x10000).view(torch.float32)),
    ],
)
def test_bits_of_a_float32_are_a_float32s_and_a_wrong_one_is_found(original: Any, wrong: Any) -> None:
    assert judged(original, original, X).outcome is Outcome.ADMITTED
    assert judged(original, wrong, X).outcome is Outcome.CONFORMANCE_FAILURE


def test_bits_that_do_not_tell_whose_they_are_leave_it_undecided_with_the_reason() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        read = x.to(torch.bfloat16).view(torch.int16)
        x.mul_(2)
        return read.sum()

    verdict = judged(halves, halves, X)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "read by their bits as torch.int16" in verdict.message


def test_what_is_written_through_its_bits_is_no_false_alarm() -> None:
    def sign_taken(x: torch.Tensor) -> torch.Tensor:
        x.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        return x + 1

    verdict = judged(sign_taken, sign_taken, -X)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "written to" in verdict.message
    assert not [item for item in verdict.findings if "planted" in item.message]


def test_an_original_whose_result_is_of_another_shape_in_float64_is_not_held_to_that() -> None:
    def above(x: torch.Tensor) -> torch.Tensor:
        return x[x / 3 * 3 > x]  # rounding decides how many

    verdict = judged(above, above, torch.arange(1.0, 65.0))
    assert verdict.outcome is not Outcome.CONFORMANCE_FAILURE
