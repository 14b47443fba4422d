"""Sums whose terms or partial sums lose bits, or whose order is not the declared one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.grafted import grafted
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, is_an_input, places, single_axis

BLOCK = 8
LONG = 1_000_000  # a sequential sum of fewer terms stays within what blocked ones may lose
TF32_DROPPED_BITS = 13


def _in_bfloat16(program: Program) -> Iterator[Change]:
    """Only where integers as inputs make every right order exact: a budget alone is blind to it. No mean is exact."""
    for place in places(program, ("matmul", "linear", "sum")):
        operands = list(place.node.operands())
        if operands and len({*operands}) == len(operands) and all(is_an_input(place.graph, name) for name in operands):
            terms = _terms(place)
            if terms > BLOCK:
                yield place.change(f"{terms} terms accumulated in bfloat16", _ROUNDED[place.op])


def _terms(place: Place) -> int:
    """How many terms each element sums; 0 where it is no sum of floating-point numbers along one axis."""
    spec = place.spec("input" if place.op == "linear" else "self")
    if spec is None or not spec.dtype.is_floating_point or not spec.shape:
        return 0
    if place.op in ("matmul", "linear"):
        return spec.shape[-1]
    axis = single_axis(place.given.get("dim"), len(spec.shape))
    return 0 if axis is None else spec.shape[axis]


def rounded_total(partial: list[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros_like(partial[0], dtype=torch.bfloat16)
    for item in partial:
        total = (total.float() + item.float()).bfloat16()
    return total


def _product_in_bfloat16(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    pairs = zip(left.split(BLOCK, -1), right.split(BLOCK, -2), strict=True)
    return rounded_total([one.float() @ other.float() for one, other in pairs]).to(left.dtype)


def _matmul_in_bfloat16(_right: Callable[[Given], Any], given: Given) -> Any:
    return _product_in_bfloat16(given["self"], given["other"])


def _linear_in_bfloat16(_right: Callable[[Given], Any], given: Given) -> Any:
    value = _product_in_bfloat16(given["input"], given["weight"].transpose(-1, -2))
    return value if given.get("bias") is None else value + given["bias"]


def _sum_in_bfloat16(_right: Callable[[Given], Any], given: Given) -> Any:
    x, axis, kept = given["self"], given["dim"][0], bool(given.get("keepdim", False))
    parts = [item.float().sum(axis, keepdim=kept) for item in x.split(BLOCK, axis)]
    return rounded_total(parts).to(given.get("dtype") or x.dtype)


_ROUNDED: dict[str, Operator] = {
    "matmul": _matmul_in_bfloat16,
    "linear": _linear_in_bfloat16,
    "sum": _sum_in_bfloat16,
}


def _one_by_one(program: Program) -> Iterator[Change]:
    for place in places(program, ("sum", "mean")):
        spec = place.spec("self")
        if spec is not None and spec.dtype == torch.float32 and len(spec.shape) == 1 and spec.shape[0] >= LONG:
            yield place.change(f"{spec.shape[0]} terms added one by one", _sequential(place.op == "mean"))


def _sequential(mean: bool) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        terms = given["self"].detach().numpy()
        total = torch.tensor(np.add.accumulate(terms)[-1])
        return grafted(total / len(terms) if mean else total, right(given))

    return operator


def _short_factors(program: Program) -> Iterator[Change]:
    for place in places(program, ("matmul", "linear")):
        spec = place.spec("input" if place.op == "linear" else "self")
        names = ("input", "weight") if place.op == "linear" else ("self", "other")
        if spec is not None and spec.dtype == torch.float32:
            yield place.change("factors rounded to bfloat16", _factors(names, lambda x: x.bfloat16().float()))
            yield place.change("factors truncated to TF32", _factors(names, _tf32))


def _factors(names: tuple[str, str], shorten: Callable[[torch.Tensor], torch.Tensor]) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        return right({**given, **{name: shorten(given[name]) for name in names}})

    return operator


def _tf32(x: torch.Tensor) -> torch.Tensor:
    bits = x.detach().contiguous().view(torch.int32)
    kept = ((bits >> TF32_DROPPED_BITS) << TF32_DROPPED_BITS).view(torch.float32)
    return grafted(kept, x)


def _any_order(program: Program) -> Iterator[Change]:
    for place in places(program, ("sum", "mean", "matmul", "linear")):
        if _terms(place) > BLOCK:
            yield place.change("in another order at every call", _SHUFFLED[place.op])


def _shuffled_product(left: str, other: str, axis: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        order = _order(given[left].shape[-1])
        shuffled = {left: given[left][..., order], other: given[other].index_select(axis, order)}
        return right({**given, **shuffled})

    return operator


def _shuffled_sum(right: Callable[[Given], Any], given: Given) -> Any:
    axis = given["dim"][0]
    return right({**given, "self": given["self"].index_select(axis, _order(given["self"].shape[axis]))})


def _order(count: int) -> torch.Tensor:
    """From the system's entropy: torch's generator is the program's."""
    order = list(range(count))
    random.SystemRandom().shuffle(order)
    return torch.tensor(order)


_SHUFFLED: dict[str, Operator] = {
    "sum": _shuffled_sum,
    "mean": _shuffled_sum,
    "matmul": _shuffled_product("self", "other", -2),
    "linear": _shuffled_product("input", "weight", -1),
}

FAULTS = (
    Fault("M07", ("exact_integers",), "accumulates in bfloat16", _in_bfloat16),
    Fault("M08", ("conditioning",), "adds a million terms one by one in float32", _one_by_one),
    Fault("M09", ("exact_integers", "conditioning"), "shortens the factors of a float32 product", _short_factors),
    Fault("M39", ("determinism",), "adds in another order at every call", _any_order),
)
