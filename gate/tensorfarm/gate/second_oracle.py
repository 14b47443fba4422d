"""The second oracle: the original in its own dtype, with every sum in reverse order. It reports and never decides.

Where a subject is far from float64, or a limit too wide to decide by, a reader asks whether the original is far from it
too, and whether that is an accident of its order of summation. A float64 program has no more exact oracle than itself:
there the limits already hold the oracle's own error, since sigma is sampled at float64's roundoff, and this run says
how large that error is. Invariant: it runs for what did not pass, and a finding says more for it and is no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import between
from tensorfarm.gate.agreement import as_real
from tensorfarm.gate.calling import observed
from tensorfarm.gate.checks import forward, gradient
from tensorfarm.gate.compared import Place
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.reference import Reference
from tensorfarm.gate.rounding import name_of
from tensorfarm.gate.trial import Trial

# The derivative families and the rest compare what these two have compared before, or compare no rounded values.
_KINDS = {forward.NAME: "output", gradient.NAME: "gradient"}
OPEN = (Status.FAIL, Status.UNDECIDABLE)
# Times the error of whichever of the two errs more: within it the subject is as exact as the program.
_MARGIN = 4.0


def with_tie_breaks(findings: Sequence[Finding], evidence: Evidence, reference: Reference) -> list[Finding]:
    """The same findings; those of values that failed or could not be decided say what the original errs by there.

    ``reference`` is in its own dtypes. It is run once for each trial that such a finding is about, and for no other.
    """
    answers: dict[str, list[Observation]] = {}
    found: list[Finding] = []
    for finding in findings:
        asked = _asked(finding, evidence) if finding.status in OPEN and finding.check_name in _KINDS else None
        if asked is None:
            found.append(finding)
            continue
        name = asked.trial.name
        if name not in answers:
            answers[name] = _answered(reference, asked.trial, evidence.expected[name])
        second = answers[name][asked.number].tensors.get(asked.key)
        told = tie_break(asked.expected, asked.seen, second, finding.worst_index)
        told_so = replace(finding, message=f"{finding.message}; {told}", original_errs=told)
        found.append(told_so if told else finding)
    return found


@dataclass(frozen=True)
class _Asked:
    """The tensor that a finding is about."""

    trial: Trial
    number: int
    key: str
    expected: Expected
    seen: torch.Tensor


def _asked(finding: Finding, evidence: Evidence) -> _Asked | None:
    """None where a tensor is missing, or of another shape: no element is the worst then."""
    kind = _KINDS[finding.check_name]
    return next((item for item in _candidates(finding, evidence, kind) if _is_about(finding, item)), None)


def _candidates(finding: Finding, evidence: Evidence, kind: str) -> Iterator[_Asked]:
    for name, trial in evidence.trials.items():
        if (trial.suite, trial.layout) != (finding.input_suite, finding.layout):
            continue
        for number, wanted, given in evidence.pairs(name):
            place = Place(trial, number, wanted, given)
            for tensor, expected in wanted.all_expected(kind):
                seen = given.tensors.get(f"{kind}:{tensor}")
                if seen is not None and place.what(kind, tensor) == finding.what:
                    yield _Asked(trial, number, f"{kind}:{tensor}", expected, seen)


def _is_about(finding: Finding, asked: _Asked) -> bool:
    """Trials of one suite share their words, and no worst element."""
    seen, exact = asked.seen, asked.expected.exact
    if (seen.shape, seen.dtype) != (exact.shape, asked.expected.eager.dtype) or not seen.numel():
        return False
    seen, expected = as_real(seen.detach(), asked.expected)
    where = finding.worst_index
    if len(where) != seen.dim() or any(at >= size for at, size in zip(where, seen.shape, strict=True)):
        return False
    numbers = (float(expected.exact[where]), float(seen[where]))
    told = (finding.worst_expected, finding.worst_seen)
    return all(one == other or (one != one and other != other) for one, other in zip(numbers, told, strict=True))


def _answered(reference: Reference, trial: Trial, expected: Sequence[Expectation]) -> list[Observation]:
    callee = reference.fresh(trial.variant, changes=any(call.between for call in trial.calls))
    found: list[Observation] = []
    for number, (call, wanted) in enumerate(zip(trial.calls, expected, strict=True)):
        if call.between:
            between.apply(callee.module, call.between, number)
        leaves = reference.arguments(call.inputs, call.literals, wide=False)

        def vectors(_: Sequence[Any], given: Mapping[int, torch.Tensor] = wanted.cotangents) -> Mapping[int, Any]:
            return given

        with Reversed():
            found.append(observed(callee, leaves, call.derivative, vectors, call.seed))
    return found


class Reversed(TorchDispatchMode):
    """Runs products and sums over their terms from last to first, in the dtype that they have."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under the mode, and the wrapper that guards against it loads a compiler."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        reverse = _REVERSALS.get(name_of(func))
        return func(*(args if reverse is None else reverse(list(args))), **(kwargs or {}))


def _product(args: list[Any]) -> list[Any]:
    """Of the last two matrices of ``mm``, ``bmm``, ``addmm``, ``baddbmm``."""
    args[-2], args[-1] = args[-2].flip(-1), args[-1].flip(-2)
    return args


def _sum(args: list[Any]) -> list[Any]:
    value = args[0]
    if len(args) > 1 and args[1] is not None:
        dims = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        return [value.flip(dims or list(range(value.dim()))), *args[1:]]
    return [value.flip(list(range(value.dim()))), *args[1:]]


def _convolution(args: list[Any]) -> list[Any]:
    """The channels; a grouped one's belong to their groups."""
    if args[8] == 1 and not args[6]:
        args[0], args[1] = args[0].flip(1), args[1].flip(1)
    return args


_REVERSALS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "mm": _product,
    "bmm": _product,
    "addmm": _product,
    "baddbmm": _product,
    "sum": _sum,
    "mean": _sum,
    "convolution": _convolution,
}


def tie_break(expected: Expected, seen: torch.Tensor, second: torch.Tensor | None, where: tuple[int, ...]) -> str:
    """A sentence about the element at ``where``, for a finding's message; empty where there is nothing to measure.

    ``second`` is what the second oracle gave, None where it gave nothing. A complex element is one of its two parts.
    """
    if second is None or second.shape != expected.exact.shape:
        return ""
    subject, plain = as_real(seen.detach(), expected)
    other, _ = as_real(second.detach(), expected)
    exact = float(plain.exact[where])
    original, turned, errs = (abs(float(value[where]) - exact) for value in (plain.eager, other, subject))
    if not (math.isfinite(original) and math.isfinite(turned)):
        return ""
    place = f"at {list(where)}" if where else "there"
    told = f"{place} the original errs by {original:.3g}, and by {turned:.3g} with its sums in reverse order"
    # A NaN is farther off than any number.
    if not errs <= _MARGIN * max(original, turned):
        return f"{told}: both are nearer to float64 than the subject"
    return f"{told}: the program is no more exact than that at this element"
