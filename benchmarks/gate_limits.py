"""The smallest fault that is still killed: a relative error of 2^-23 to 2^0, planted at the result of one operator.

In one element, or in all. A fault in the result is looked for by ``forward``, ``integers`` and
``exact_integers``, one in the gradient that goes back through it by ``gradient``. Beside it stands the limit of that
finding's worst element, as a part of its value. Invariant: the checks are the gate's own, on evidence that its own
oracle and runner made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gate_children import apart, side_by_side
from gate_verdicts import Bench, can_load
from report import Goal
from rich.console import Console
from rich.table import Table

from tensorfarm.contract.numerics import NumericalContract, parse_contract
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.program import Program
from tensorfarm.gate.calling import observed
from tensorfarm.gate.checks import exact_integers, forward, gradient, integers
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.facts import facts_of
from tensorfarm.gate.faults.fault import KIND, Change
from tensorfarm.gate.faults.grafted import with_gradient_changed
from tensorfarm.gate.faults.interpreted import Given
from tensorfarm.gate.faults.places import places
from tensorfarm.gate.faults.subject import of_graph
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import Reference, reference_of_program
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Trial

EXPONENTS = range(-23, 1)
# What an operator is called, the program it is looked for in, and its name there.
CLASSES = (
    ("pointwise", "specimens:mlp", "gelu"),
    ("division", "specimens:mlp", "div"),
    ("matrix product", "specimens:totals", "matmul"),
    ("matrix product, bfloat16", "specimens:half_totals", "matmul"),
    ("linear layer", "specimens:classifier", "linear"),
    ("sum", "specimens:totals", "sum"),
    ("sum of a million", "specimens:long_sum", "sum"),
    ("norm", "specimens:normed", "layer_norm"),
    ("variance", "specimens:normed", "var"),
    ("batch norm", "stateful:convnet", "_native_batch_norm_legit_functional"),
    ("softmax", "specimens:classifier", "softmax"),
    ("attention", "specimens:attention", "scaled_dot_product_attention"),
    ("convolution", "stateful:convnet", "conv2d"),
    ("pooling", "specimens:pooling", "avg_pool2d"),
    ("scatter", "specimens:scattering", "scatter_add"),
    ("cast to bfloat16", "specimens:casting", "_to_copy"),
    ("integers", "specimens:integer_arithmetic", "mul"),
)
Check = Callable[[Evidence], Sequence[Finding]]
OF_VALUES: dict[str, Check] = {
    "forward": forward.check,
    "integers": integers.check,
    "exact_integers": exact_integers.check,
}
OF_GRADIENTS: dict[str, Check] = {"gradient": gradient.check}
TRIALS = (forward.trials, exact_integers.trials, integers.trials, gradient.trials)
Scaled = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Limit:
    """``exponent`` of the smallest fault from which on every larger one is killed, None where the largest is not;
    ``limit`` is that of the worst element then, as a part of its value."""

    op_class: str
    elements: str
    family: str
    exponent: int | None
    limit: float


@dataclass(frozen=True)
class Question:
    """One class, and the file of the program it is asked of."""

    op_class: str
    path: Path
    op: str
    contract: Mapping[str, Any]


def limits(bench: Bench, paths: Mapping[str, Path]) -> list[Limit]:
    """Of every class whose program is among ``paths``."""
    asked = [Question(name, paths[source], op, bench.contract) for name, source, op in CLASSES if source in paths]
    order = {question.op_class: place for place, question in enumerate(asked)}
    answered = side_by_side(_apart, asked, bench.workers, "detection limits")
    return [item for _, found in sorted(answered, key=lambda pair: order[pair[0].op_class]) for item in found]


def printed(found: Sequence[Limit]) -> None:
    table = Table(title="smallest relative fault that is killed, beside the limit there")
    for name in ("operator", "wrong", "forward", "limit", "integers", "exact_integers", "gradient", "limit"):
        table.add_column(name, justify="left" if name in ("operator", "wrong") else "right")
    cells = {(item.op_class, item.elements, item.family): item for item in found}
    for op_class, elements in dict.fromkeys((item.op_class, item.elements) for item in found):
        of = {family: cells[op_class, elements, family] for family in (*OF_VALUES, *OF_GRADIENTS)}
        told = {family: "–" if item.exponent is None else f"2^{item.exponent}" for family, item in of.items()}
        beside = {family: "–" if item.exponent is None else f"{item.limit:.2g}" for family, item in of.items()}
        table.add_row(
            op_class, elements, told["forward"], beside["forward"], told["integers"], told["exact_integers"],
            told["gradient"], beside["gradient"],
        )  # fmt: skip
    Console(width=120).print(table)


def goal(found: Sequence[Limit], paths: Mapping[str, Path]) -> Goal:
    """Every class has an answer; what it should be is nobody's promise."""
    asked = {name for name, source, _ in CLASSES if source in paths}
    answered = len({item.op_class for item in found})
    return Goal("classes of operators with a detection limit", f"{len(asked)} of {len(asked)}", answered,
                answered == len(asked))  # fmt: skip


def rows(found: Iterable[Limit]) -> list[dict[str, Any]]:
    return [asdict(item) for item in found]


def _apart(question: Question) -> list[Limit]:
    return apart(_answered, question).answer or []


def _answered(question: Question) -> list[Limit]:
    can_load()
    asked = _Asked.of(Program.load(question.path), parse_contract(question.contract))
    place = next(places(asked.program, (question.op,)))
    found: list[Limit] = []
    for elements, scaled in (("one", _one_scaled), ("all", _all_scaled)):
        for checks, planted in ((OF_VALUES, _in_value), (OF_GRADIENTS, _in_gradient)):
            seen = [
                asked.evidence(place.change("detection limit", partial(planted, partial(scaled, 2.0**exponent))))
                for exponent in EXPONENTS
            ]
            found += [_limit(question.op_class, elements, name, check, seen) for name, check in checks.items()]
    return found


@dataclass(frozen=True)
class _Asked:
    """A program, what is asked of it and what should come out."""

    program: Program
    reference: Reference
    setting: Setting
    trials: Mapping[str, Trial]
    expected: Mapping[str, tuple[Expectation, ...]]

    @staticmethod
    def of(program: Program, contract: NumericalContract) -> _Asked:
        reference = reference_of_program(program)
        facts = facts_of({"kind": KIND, "live": False})
        setting = Setting(contract, reference.leaves, facts, "training", Level.QUICK, 0)
        trials = {trial.name: trial for ask in TRIALS for trial in ask(setting)}
        expected = expectations(reference, trials.values(), contract, 0)
        return _Asked(program, reference, setting, trials, expected)

    def evidence(self, change: Change) -> Evidence:
        seen: dict[str, tuple[Observation, ...]] = {}
        for name, trial in self.trials.items():
            subject = of_graph(self.program, change)
            seen[name] = tuple(
                observed(
                    subject,
                    self.reference.arguments(call.inputs, call.literals, wide=False),
                    call.derivative,
                    lambda _, vectors=wanted.cotangents: vectors,
                    call.seed,
                )
                for call, wanted in zip(trial.calls, self.expected[name], strict=True)
            )
        return Evidence(self.setting, self.trials, self.expected, {MAIN.name: seen})


def _limit(op_class: str, elements: str, name: str, check: Check, seen: Sequence[Evidence]) -> Limit:
    smallest: tuple[int, Finding] | None = None
    for exponent, evidence in zip(reversed(EXPONENTS), reversed(seen), strict=True):
        failed = [finding for finding in check(evidence) if finding.status is Status.FAIL]
        if not failed:
            break
        smallest = exponent, max(failed, key=lambda finding: finding.observed_over_limit)
    if smallest is None:
        return Limit(op_class, elements, name, None, 0.0)
    exponent, worst = smallest
    value = abs(worst.worst_expected)
    return Limit(op_class, elements, name, exponent, worst.limit_abs / value if value else 0.0)


def _in_value(scaled: Scaled, right: Callable[[Given], Any], given: Given) -> Any:
    return _at_first(scaled, right(given))


def _in_gradient(scaled: Scaled, right: Callable[[Given], Any], given: Given) -> Any:
    def changed(value: torch.Tensor) -> torch.Tensor:
        return with_gradient_changed(value, scaled) if value.requires_grad else value

    return _at_first(changed, right(given))


def _at_first(change: Scaled, result: Any) -> Any:
    """The first tensor of a result: the value itself of operators that give statistics beside it."""
    if isinstance(result, torch.Tensor):
        return change(result)
    return type(result)((change(result[0]), *result[1:]))


def _all_scaled(size: float, value: torch.Tensor) -> torch.Tensor:
    if value.is_floating_point():
        return value * (1 + size)
    return (value.to(torch.float64) * (1 + size)).round().to(value.dtype)


def _one_scaled(size: float, value: torch.Tensor) -> torch.Tensor:
    """The middle one of those above 0: a ``relu`` hides what is wrong below."""
    flat = value.detach().reshape(-1).to(torch.float64)
    order = flat.argsort(stable=True)
    order = order[flat[order] > 0]
    where = torch.zeros(value.numel(), dtype=torch.bool)
    where[order[len(order) // 2 : len(order) // 2 + 1]] = True
    return torch.where(where.view(value.shape), _all_scaled(size, value), value)
