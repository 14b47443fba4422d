"""F22, metadata: number of outputs and how they are packed; dtype, shape, strides and gradient flags of each.

Comes before any comparison of values, so that nothing is broadcast. Strides of dimensions of size one, and of empty
tensors, mean nothing and are left out. Whether an output is a leaf is not asked of one that shares the memory of an
input: a copy of that input is no leaf, and harms nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Trial

NAME, FAMILY, LEVEL, COST = "metadata", "F22", Level.QUICK, 10
_LITERAL_DIGITS = 2.0**-12


def trials(setting: Setting) -> list[Trial]:
    return [example.trial(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output of each call that gave some."""
    contract, found = evidence.setting.contract, list[Finding]()
    for _, wanted, given in evidence.pairs(example.NAME):
        if _answered(wanted.eager) and _answered(given):
            found += _call(contract, wanted.eager, given, _borrowed(wanted))
    return found or [inapplicable(NAME, "metadata: every call raised; see errors")]


def canary(evidence: Evidence) -> Evidence | None:
    """One flag turned: whether the first output wants a gradient."""
    for number, wanted, given in evidence.pairs(example.NAME):
        flags = given.report.requires_grad
        if flags and _answered(wanted.eager) and _answered(given):
            position = min(flags, key=int)
            turned = replace(given.report, requires_grad={**flags, position: not flags[position]})
            return evidence.with_seen(example.NAME, number, replace(given, report=turned))
    return None


def _answered(seen: Observation) -> bool:
    """Its forward pass did: a wrong shape makes the backward pass raise, and is to be named all the same."""
    return not seen.report.error or seen.report.stage != "forward"


def _call(
    contract: NumericalContract, wanted: Observation, given: Observation, borrowed: frozenset[str]
) -> Iterator[Finding]:
    if contract.metadata.arity == "exact":
        if wanted.output_count() != given.output_count():
            yield failed(NAME, "outputs", f"expected {wanted.output_count()}, seen {given.output_count()}")
            return
        packing = wanted.report.structure, given.report.structure
        if all(packing) and packing[0] != packing[1]:
            yield failed(NAME, "outputs", f"expected them as {packing[0]}, seen {packing[1]}")
    for position in sorted(wanted.named("output").keys() | wanted.report.literals.keys(), key=int):
        yield _output(contract, position, wanted, given, position in borrowed)


def _borrowed(wanted: Expectation) -> frozenset[str]:
    """Outputs that share memory with an input in the original."""
    pairs = wanted.eager.report.aliases
    return frozenset(
        key.removeprefix("output:")
        for left, right in pairs
        for key, other in ((left, right), (right, left))
        if key.startswith("output:") and other.startswith("input:")
    )


def _output(
    contract: NumericalContract, position: str, wanted: Observation, given: Observation, borrowed: bool
) -> Finding:
    what = f"output {position}"
    expected, seen = wanted.tensors.get(f"output:{position}"), given.tensors.get(f"output:{position}")
    if expected is None:
        literal, told = wanted.report.literals[position], given.report.literals.get(position)
        if seen is not None:
            return failed(NAME, what, f"expected {literal!r}, seen a tensor")
        if not alike(literal, told):
            return failed(NAME, what, f"expected {literal!r}, seen {told!r}")
        return passed(NAME, what, 1)
    if seen is None:
        return failed(NAME, what, f"expected a tensor, seen {given.report.literals.get(position)!r}")
    differences = [*_of_tensor(contract, expected, seen), *_of_flags(contract, position, wanted, given, borrowed)]
    if not differences:
        return passed(NAME, what, 1)
    told = failed(NAME, what, "; ".join(item.told for item in differences))
    return replace(told, slight=all(item.slight for item in differences))


def alike(expected: Any, seen: Any) -> bool:
    """Numbers that a program computes and returns as Python's own are rounded otherwise, and need half their digits."""
    wanted, given = _number(expected), _number(seen)
    if wanted is None or given is None or not math.isfinite(wanted):
        return type(expected) is type(seen) and repr(expected) == repr(seen)
    return math.isclose(wanted, given, rel_tol=_LITERAL_DIGITS, abs_tol=_LITERAL_DIGITS)


def _number(literal: Any) -> float | None:
    """A float, which a report holds as hexadecimal text; None of any other literal."""
    if not isinstance(literal, str) or "0x" not in literal:
        return None
    try:
        return float.fromhex(literal)
    except ValueError:
        return None


@dataclass(frozen=True)
class _Difference:
    """``slight``: the values of the next operator do not hang on it."""

    told: str
    slight: bool = False


def _of_tensor(contract: NumericalContract, expected: torch.Tensor, seen: torch.Tensor) -> Iterator[_Difference]:
    exact = contract.metadata
    if exact.dtype == "exact" and seen.dtype != expected.dtype:
        yield _Difference(f"expected dtype {expected.dtype}, seen {seen.dtype}")
    if seen.shape != expected.shape:
        if exact.shape == "exact":
            yield _Difference(f"expected shape {list(expected.shape)}, seen {list(seen.shape)}")
    elif contract.strides == "as_reference" and _strides(seen) != _strides(expected):
        told = f"expected strides {list(expected.stride())}, seen {list(seen.stride())}"
        yield _Difference(told, slight=True)


def _of_flags(
    contract: NumericalContract, position: str, wanted: Observation, given: Observation, borrowed: bool
) -> Iterator[_Difference]:
    expected, seen = (item.report.requires_grad.get(position, False) for item in (wanted, given))
    if expected != seen:
        if contract.metadata.requires_grad == "exact":
            yield _Difference(f"expected requires_grad {expected}, seen {seen}")
        return
    leaf, told = (item.report.is_leaf.get(position, True) for item in (wanted, given))
    if contract.metadata.is_leaf == "exact" and expected and not borrowed and leaf != told:
        yield _Difference(f"expected is_leaf {leaf}, seen {told}", slight=True)


def _strides(tensor: torch.Tensor) -> list[int]:
    if not tensor.numel():
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
