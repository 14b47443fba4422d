"""Did a mutant do anything? A mutant whose bits are the original's on every input of the gate is no fault.

Judged by the gate's own trials, all of them, against the same program run in the same way without the change: what a
runner does to a program is no activity. Invariant: this looks at bits alone and knows no limit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.program import Program
from tensorfarm.gate import between
from tensorfarm.gate.calling import differentiable, observed
from tensorfarm.gate.cotangents import cotangents_of, tangents_of
from tensorfarm.gate.examination import trials_of
from tensorfarm.gate.facts import facts_of
from tensorfarm.gate.faults.fault import KIND, Change, Mutant
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.subject import of_graph, of_module
from tensorfarm.gate.inputs import example, ladder, promotion
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.reference import Reference, reference_of_program
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.subject.load import Loaded
from tensorfarm.gate.trial import Call, Derivative, Trial
from tensorfarm.gate.variant import varied

_TO_NEAREST = 0  # of <fenv.h>


@dataclass(frozen=True)
class Activity:
    """``where`` is the first trial, call and tensor whose bits changed, empty for an equivalent mutant; ``reached``
    whether the changed site ran at all, as far as that can be told."""

    where: str
    reached: bool


class Probe:
    """Activity of mutants of one program. The unchanged program's answers are kept between them."""

    def __init__(self, program: Program, contract: NumericalContract, mode: str, seed: int = 0) -> None:
        self.program = program
        self.reference: Reference = reference_of_program(program)
        self._asked = (contract, mode, seed)
        self._trials: dict[bool, tuple[Trial, ...]] = {}
        self._right: dict[tuple[bool, str], list[Observation]] = {}

    def trials(self, live: bool) -> tuple[Trial, ...]:
        """Everything the gate asks at its full level of such a subject, and a little more of a live one."""
        if live not in self._trials:
            contract, mode, seed = self._asked
            setting = Setting(
                contract, self.reference.leaves, facts_of({"kind": KIND, "live": live}), mode, Level.FULL, seed
            )
            found = tuple(trials_of(setting).values())
            self._trials[live] = found + (_after_the_example(found) if live else ())
        return self._trials[live]

    def activity(self, mutant: Mutant) -> Activity:
        """Trials in the gate's order, up to the first difference."""
        change = mutant.change.seen_here or mutant.change
        live = change.wrap is not None
        ran: list[str] = []
        change = replace(change, operators={key: _counted(value, ran) for key, value in change.operators.items()})
        for trial in self.trials(live):
            right = self._unchanged(live, trial)
            for number, (one, other) in enumerate(zip(right, self._called(live, trial, change), strict=True)):
                place = difference(one, other)
                if place:
                    return Activity(f"{trial.name} call {number}: {place}", True)
        return Activity("", bool(ran) or not change.operators)

    def _unchanged(self, live: bool, trial: Trial) -> list[Observation]:
        key = (live, trial.name)
        if key not in self._right:
            self._right[key] = self._called(live, trial, None)
        return self._right[key]

    def _called(self, live: bool, trial: Trial, change: Change | None) -> list[Observation]:
        subject = self._subject(live, trial, change)
        seen: list[Observation] = []
        for number, call in enumerate(trial.calls):
            if call.between and subject.module is not None:
                between.apply(subject.module, call.between, number)
            leaves = self.reference.arguments(call.inputs, call.literals, wide=False)
            with _kept_process():
                seen.append(observed(subject, leaves, call.derivative, _vectors(call), call.seed))
        return seen

    def _subject(self, live: bool, trial: Trial, change: Change | None) -> Loaded:
        prepare = (lambda module: varied(module, trial.variant)) if trial.variant else None
        if not live:
            return of_graph(self.program, change)
        return of_module(self.reference.build, change, self.program.in_spec, prepare)


def _after_the_example(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Each other dtype and size once more, as a second call: what is cached may be wrong there alone.

    Beyond the gate's own, so that a gate which never asks this is seen to miss something.
    """
    first = next(trial for trial in trials if trial.name == example.NAME).calls[0]
    others = [trial for trial in trials if trial.name.startswith((f"{promotion.NAME}:", f"{ladder.NAME}:"))]
    return tuple(replace(trial, name=f"second:{trial.name}", calls=(first, *trial.calls)) for trial in others)


def difference(one: Observation, other: Observation) -> str:
    """The first thing in which two calls differ, to the bit; empty where there is none."""
    for key in (*one.tensors, *(other.tensors.keys() - one.tensors.keys())):
        if key not in one.tensors or key not in other.tensors:
            return f"{key} is given by one alone"
        if not _alike(one.tensors[key], other.tensors[key], key.startswith("output:")):
            return key
    told, said = one.report, other.report
    if bool(told.error) != bool(said.error):
        return f"raises {said.error or told.error}"
    for name in ("structure", "literals", "requires_grad", "is_leaf", "aliases", "state_after"):
        if getattr(told, name) != getattr(said, name):
            return name
    return ""


def _alike(one: torch.Tensor, other: torch.Tensor, layout: bool) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if layout and one.numel() > 1 and one.stride() != other.stride():
        return False
    return torch.equal(_bits(one), _bits(other))


def _bits(value: torch.Tensor) -> torch.Tensor:
    return value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _vectors(call: Call) -> Callable[[Sequence[Any]], Mapping[int, torch.Tensor]]:
    if call.derivative is Derivative.JVP:
        return lambda leaves: tangents_of(leaves, call.seed)
    return lambda outputs: cotangents_of(outputs, differentiable(outputs), call.cotangent, call.seed)


def _counted(operator: Operator, ran: list[str]) -> Operator:
    def counting(right: Callable[[Given], Any], given: Given) -> Any:
        ran.append("once more")
        return operator(right, given)

    return counting


@contextmanager
def _kept_process() -> Generator[None]:
    """What a mutant leaves behind in the process must not reach the next."""
    dtype, threads, precision = (
        torch.get_default_dtype(), torch.get_num_threads(), torch.get_float32_matmul_precision(),
    )  # fmt: skip
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        ctypes.CDLL(None).fesetround(_TO_NEAREST)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
