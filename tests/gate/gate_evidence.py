"""Evidence made in one process: the real oracle of a live module, and another module called as its subject."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from gate_contract import contract_with

from tensorfarm.gate import between
from tensorfarm.gate.calling import observed
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import Family
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import ModuleCallee, Reference, reference_of_module
from tensorfarm.gate.setting import Facts, Level, Setting
from tensorfarm.gate.trial import MAIN, Trial
from tensorfarm.gate.variant import varied

COMPILED = Facts("compiled", module=True, guarded=True)
QUICKLY = {"shapes.batch": [0, 1, 2, 3, 5], "oracle.monte_carlo.samples": 4}


def evidence_of(
    families: Iterable[Any],
    original: torch.nn.Module,
    inputs: Sequence[Any],
    subject: torch.nn.Module | None = None,
    *,
    level: Level = Level.FULL,
    mode: str = "inference",
    changes: Mapping[str, Any] | None = None,
    facts: Facts = COMPILED,
) -> Evidence:
    """What the families ask for, of ``subject`` against ``original``; of the original against itself where it is
    left out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _made(families, original, inputs, subject or original, level, mode, changes, facts)
    finally:
        torch.set_num_threads(threads)


def _made(
    families: Iterable[Any],
    original: torch.nn.Module,
    inputs: Sequence[Any],
    subject: torch.nn.Module,
    level: Level,
    mode: str,
    changes: Mapping[str, Any] | None,
    facts: Facts,
) -> Evidence:
    reference = reference_of_module(original, inputs, {})
    contract = contract_with({**QUICKLY, **(changes or {})})
    setting = Setting(contract, reference.leaves, facts, mode, level, 0)
    trials: dict[str, Trial] = {}
    for family in families:
        for trial in family.trials(setting):
            known = trials.get(trial.name)
            trials[trial.name] = trial if known is None else replace(known, depth=max(known.depth, trial.depth))
    expected = expectations(reference, trials.values(), contract, 0)
    seen = {name: _called(reference, subject, trial, expected[name]) for name, trial in trials.items()}
    return Evidence(setting, trials, expected, {MAIN.name: seen})


def survives(family: Family, evidence: Evidence) -> set[str]:
    """What fails in a family's canary; nothing where it can plant none."""
    planted = family.canary(evidence)
    return set() if planted is None else failing(family, planted)


def failing(family: Family, evidence: Evidence) -> set[str]:
    return {finding.what for finding in family.check(evidence) if finding.status.value == "fail"}


def statuses(family: Family, evidence: Evidence) -> set[str]:
    """Statuses of what counts."""
    return {finding.status.value for finding in family.check(evidence) if finding.required}


def _called(
    reference: Reference, module: torch.nn.Module, trial: Trial, expected: tuple[Expectation, ...]
) -> tuple[Observation, ...]:
    fresh = copy.deepcopy(module)
    callee = ModuleCallee(varied(fresh, trial.variant) if trial.variant else fresh, reference.in_spec)
    found: list[Observation] = []
    for number, (call, wanted) in enumerate(zip(trial.calls, expected, strict=True)):
        if call.between:
            between.apply(callee.module, call.between, number)
        leaves = reference.arguments(call.inputs, call.literals, wide=False)
        found.append(observed(callee, leaves, call.derivative, lambda _, made=wanted.cotangents: made, call.seed))
    return tuple(found)
