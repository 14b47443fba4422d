"""Evidence for the behaviour families, made in this process: a real module, a real oracle, a subject that is called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from gate_contract import contract_with

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import between
from tensorfarm.gate.calling import observed
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import ModuleCallee, Reference, reference_of_module
from tensorfarm.gate.setting import Facts, Level, Setting
from tensorfarm.gate.trial import MAIN, Trial

COMPILED = Facts("compiled", module=True, guarded=True)
ARTIFACT = Facts("artifact", fixed_shapes=True, fixed_layouts=True)
Wrap = Callable[[torch.nn.Module], Any]


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def run(
    check: ModuleType,
    module: torch.nn.Module,
    args: Sequence[Any],
    subject: torch.nn.Module | None = None,
    *,
    wrap: Wrap | None = None,
    facts: Facts = COMPILED,
    mode: str = "inference",
    level: Level = Level.FULL,
    changes: Mapping[str, Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Evidence:
    """What ``check`` asks for, of ``subject`` (the module itself where there is none) in every session alike.

    ``wrap`` makes what is called of the subject's module, whose parts change between calls.
    """
    reference = reference_of_module(module, args, kwargs or {})
    made = reference_of_module(module if subject is None else subject, args, kwargs or {})
    setting = Setting(contract_with(changes), reference.leaves, facts, mode, level, 0)
    trials = {trial.name: trial for trial in check.trials(setting)}
    expected = expectations(reference, trials.values(), setting.contract, 0)
    sessions = {session.name for trial in trials.values() for session in trial.sessions} | {MAIN.name}
    seen = {
        session: {
            name: _called(made, trial, expected[name], wrap)
            for name, trial in trials.items()
            if session in {item.name for item in trial.sessions}
        }
        for session in sessions
    }
    return Evidence(setting, trials, expected, seen)


def _called(made: Reference, trial: Trial, wanted: Sequence[Expectation], wrap: Wrap | None) -> tuple[Observation, ...]:
    module = made.build()
    callee = ModuleCallee(module, made.in_spec)
    target = _Wrapped(callee, wrap(module)) if wrap else callee
    found: list[Observation] = []
    for number, call in enumerate(trial.calls):
        if call.between:
            between.apply(module, call.between, number)
        leaves = made.arguments(call.inputs, call.literals, wide=False)
        cotangents = wanted[number].cotangents
        found.append(
            observed(target, leaves, call.derivative, lambda _values, given=cotangents: given, call.seed, copied=True)
        )
    return tuple(found)


class _Wrapped:
    """Parameters and buffers of the module, and another way to call it."""

    def __init__(self, inner: ModuleCallee, called: Any) -> None:
        self.inner, self.called = inner, replace(inner, module=called)

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        return self.inner.parameters

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        return self.inner.buffers

    def call(self, leaves: Mapping[str, Any]) -> Any:
        return self.called.call(leaves)


def statuses(findings: Sequence[Finding]) -> set[Status]:
    return {finding.status for finding in findings}


def failures(findings: Sequence[Finding]) -> list[str]:
    return [finding.message for finding in findings if finding.status is Status.FAIL]


def passes(findings: Sequence[Finding]) -> bool:
    """Nothing failed, nothing that counts is open, and something was compared."""
    open_ones = [item for item in findings if item.status in (Status.NOT_RUN, Status.UNDECIDABLE) and item.required]
    return not failures(findings) and not open_ones and any(item.n_elements for item in findings)
