"""Calls are counted from 1 in all that a person reads, whichever family speaks."""

import re
from collections.abc import Callable
from typing import Any

import gate_behaviour
import pytest
import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.checks import errors, mutation, process_state, second_call
from tensorfarm.gate.compared import Place
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, failed

X = torch.linspace(-2, 2, 20).view(5, 4)


def _raises(_: torch.Tensor) -> torch.Tensor:
    raise ValueError("never")


def _writes(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    x.add_(1)
    return y


def _leaves_a_dtype(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    torch.set_default_dtype(torch.float64)
    return y


def _values(evidence: Evidence) -> list[Finding]:
    """As the families name tensors that compare them."""
    return [
        failed("values", Place(trial, number, wanted, given).what("output", "0"), "off")
        for name, trial in evidence.trials.items()
        for number, wanted, given in evidence.pairs(name)
    ]


@pytest.fixture(autouse=True)
def default_dtype() -> Any:
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        (errors.check, _raises),
        (mutation.check, _writes),
        (process_state.check, _leaves_a_dtype),
        (_values, torch.tanh),
    ],
)
def test_the_first_call_is_call_1(check: Callable[[Evidence], list[Finding]], fault: Callable[..., Any]) -> None:
    evidence = gate_behaviour.run(second_call, gate_behaviour.Calls(torch.tanh), (X,), wrap=lambda _: fault)
    told = [f"{finding.what} {finding.message}" for finding in check(evidence) if finding.status is Status.FAIL]
    numbers = {int(found) for text in told for found in re.findall(r"\bcall (\d+)", text)}
    assert min(numbers) == 1
    assert max(numbers) <= max(len(trial.calls) for trial in evidence.trials.values())
