"""Casts that round another way, and integers computed in another width."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.grafted import grafted
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, places

DROPPED_BITS = {torch.bfloat16: 16, torch.float16: 13}  # of a float32
ARITHMETIC = ("add", "sub", "mul", "cumsum", "floor_divide", "__lshift__", "sum")


def _half_away(program: Program) -> Iterator[Change]:
    """A cast whose result is given out: one within may be left out altogether, and then nothing is rounded there."""
    for place in places(program, ("_to_copy", "to", "round")):
        spec, result = place.spec("self"), place.result
        if spec is None or result is None or spec.dtype != torch.float32:
            continue
        if place.op == "round":
            yield place.change("halves rounded away from zero", _round_away)
        elif result.dtype in DROPPED_BITS and place.node.name in place.graph.output_names():
            yield place.change("halves rounded away from zero", _cast_away(result.dtype))


def _round_away(right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    away = torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x))
    is_half = (x - torch.trunc(x)).abs() == 0.5
    return torch.where(is_half, grafted(away.detach(), right(given)), right(given))


def _cast_away(dtype: torch.dtype) -> Operator:
    half = 1 << (DROPPED_BITS[dtype] - 1)

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        x = given["self"].detach()
        bits = x.contiguous().view(torch.int32)
        away = ((bits + half) & -(half << 1)).view(torch.float32).view_as(x).to(dtype)
        is_half = (bits & ((half << 1) - 1)) == half
        value = right(given)
        return grafted(torch.where(is_half.view_as(x), away, value.detach()), value)

    return operator


def _narrow_integers(program: Program) -> Iterator[Change]:
    for place in places(program, ARITHMETIC):
        spec, result = place.spec("self"), place.result
        if result is None or spec is None:
            continue
        if result.dtype == spec.dtype == torch.int64:
            yield place.change("computed in int32", _in_int32)
        elif result.dtype in (torch.int8, torch.uint8):
            yield from _unwrapped(place)


def _in_int32(right: Callable[[Given], Any], given: Given) -> Any:
    narrow = {key: _as_int32(value) for key, value in given.items()}
    return right(narrow).to(torch.int32).to(torch.int64)


def _as_int32(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(torch.int32) if value.dtype == torch.int64 else value
    if isinstance(value, int) and not isinstance(value, bool):
        return (value + 2**31) % 2**32 - 2**31
    return value


def _unwrapped(place: Place) -> Iterator[Change]:
    """The value stays wide until its users are done; a value that leaves at once is wrapped by its own dtype."""
    users = place.graph.users().get(place.node.name, [])
    if not users or place.node.name in place.graph.output_names():
        return
    operators: dict[str, Operator] = {place.node.name: _wide}
    for name in users:
        result = place.graph.nodes[name].results[0]
        if result is None:
            return
        operators[name] = _wrapped_to(result.dtype)
    yield Change(f"{place.node.name} ({place.node.op}): not wrapped to 8 bits before {', '.join(users)}", operators)


def _wide(right: Callable[[Given], Any], given: Given) -> Any:
    return right(
        {key: value.to(torch.int32) if isinstance(value, torch.Tensor) else value for key, value in given.items()}
    )


def _wrapped_to(dtype: torch.dtype) -> Operator:
    return lambda right, given: right(given).to(dtype)


FAULTS = (
    Fault("M10", ("integers", "special_values", "conditioning"), "rounds halves away from zero", _half_away),
    Fault("M27", ("integers",), "computes integers in 32 bits, or leaves 8 bits unwrapped", _narrow_integers),
)
