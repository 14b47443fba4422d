"""Backward passes that are wrong under a forward pass that is right, to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.graph import Argument
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.grafted import grafted
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, places

BROADCAST = ("add", "sub", "mul", "div", "maximum", "minimum")
CURVED = ("gelu", "tanh", "exp", "sigmoid", "log1p", "silu", "reciprocal")


def _scaled(program: Program) -> Iterator[Change]:
    for place in places(program, ("avg_pool2d", "mean")):
        spec = place.spec("self")
        if spec is None or not spec.dtype.is_floating_point:
            continue
        if place.op == "avg_pool2d" and place.given["ceil_mode"]:
            yield place.change("backward divides by the kernel's size", _by_kernel)
        axes = place.given.get("dim")
        if place.op == "mean" and isinstance(axes, tuple) and len(axes) > 1 and isinstance(axes[0], int):
            factor = math.prod(spec.shape[axis] for axis in axes if isinstance(axis, int)) / spec.shape[axes[0]]
            yield place.change(f"backward divides by the size of axis {axes[0]}", _scaled_by(factor))


def _by_kernel(right: Callable[[Given], Any], given: Given) -> Any:
    size = given["kernel_size"]
    area = math.prod(size) if len(size) == 2 else size[0] ** 2
    by_kernel = torch.nn.functional.avg_pool2d(
        given["self"],
        size,
        given.get("stride") or None,
        given.get("padding", 0),
        given.get("ceil_mode", False),
        given.get("count_include_pad", True),
        area,
    )
    return grafted(right(given), by_kernel)


def _scaled_by(factor: float) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        value = right(given)
        return grafted(value, value * factor)

    return operator


def _ties(program: Program) -> Iterator[Change]:
    for place in places(program, ("maximum", "minimum", "amax", "max")):
        spec = place.spec("self")
        if spec is None or not spec.dtype.is_floating_point or (place.op == "max" and not place.node.many):
            continue
        if place.op == "amax" and not _is_one_axis(place.given["dim"]):
            continue
        for what, operator in _TIES[place.op].items():
            yield place.change(f"gradient of ties {what}", operator)


def _is_one_axis(axes: Argument) -> bool:
    return isinstance(axes, tuple) and len(axes) == 1


def _chosen(larger: bool, ties_to_first: bool) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        x, y = torch.broadcast_tensors(given["self"], given["other"])
        first = (x > y if larger else x < y) | (x == y if ties_to_first else torch.zeros((), dtype=torch.bool))
        return grafted(right(given), torch.where(first, x, y))

    return operator


def _to_nobody(right: Callable[[Given], Any], given: Given) -> Any:
    x, y = torch.broadcast_tensors(given["self"], given["other"])
    value = right(given)
    return torch.where(x == y, value.detach(), value)


def _amax_to_first(right: Callable[[Given], Any], given: Given) -> Any:
    first = given["self"].max(given["dim"][0], keepdim=bool(given.get("keepdim", False))).values
    return grafted(right(given), first)


def _amax_to_all(right: Callable[[Given], Any], given: Given) -> Any:
    x, axis, kept = given["self"], given["dim"][0], bool(given.get("keepdim", False))
    value = right(given)
    largest = value if kept else value.unsqueeze(axis)
    return grafted(value, torch.where(x == largest, x, x.detach() * 0).sum(axis, keepdim=kept))


def _max_to_every(right: Callable[[Given], Any], given: Given) -> Any:
    values, where = right(given)
    return grafted(values, given["self"].amax(given["dim"], keepdim=bool(given.get("keepdim", False)))), where


_TIES: dict[str, dict[str, Operator]] = {
    "maximum": {
        "all to the first": _chosen(True, True),
        "all to the second": _chosen(True, False),
        "to none": _to_nobody,
    },
    "minimum": {"all to the first": _chosen(False, True), "to none": _to_nobody},
    "amax": {"all to the first": _amax_to_first, "once to each": _amax_to_all},
    "max": {"shared between them": _max_to_every},
}


def _unsummed(program: Program) -> Iterator[Change]:
    for place in places(program, BROADCAST):
        for name in ("self", "other"):
            axis = _broadcast_axis(place, name)
            if axis is None:
                continue
            yield place.change(f"gradient of {name} is that of its first use on axis {axis}", _first_use(name, axis))
            spec, result = place.spec(name), place.result
            if spec and result and len(spec.shape) == 1 and len(result.shape) == 2 and len({*result.shape}) == 1:
                yield place.change(f"gradient of {name} summed over the wrong axis", _other_sum(name))


def _broadcast_axis(place: Place, name: str) -> int | None:
    """An axis of the result along which a floating-point operand is repeated."""
    spec, result = place.spec(name), place.result
    if spec is None or result is None or not spec.shape or not spec.dtype.is_floating_point:
        return None
    shape = (1,) * (len(result.shape) - len(spec.shape)) + spec.shape
    return next((axis for axis, size in enumerate(result.shape) if size > 1 and shape[axis] == 1), None)


def _first_use(name: str, axis: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        small = given[name]
        sizes = [item.shape for item in (given["self"], given["other"]) if isinstance(item, torch.Tensor)]
        whole = small.expand(torch.broadcast_shapes(*sizes))
        if axis >= whole.dim() or whole.shape[axis] < 2:
            return right(given)
        rest = whole.detach().narrow(axis, 1, whole.shape[axis] - 1)
        return right({**given, name: grafted(whole, torch.cat([whole.narrow(axis, 0, 1), rest], axis))})

    return operator


def _other_sum(name: str) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        small = given[name]
        count = small.shape[0]
        return right({**given, name: grafted(small.expand(count, count), small.unsqueeze(1).expand(count, count))})

    return operator


def _silent_second(program: Program) -> Iterator[Change]:
    for place in places(program, CURVED):
        spec = place.spec("self")
        if spec is not None and spec.dtype.is_floating_point:
            yield place.change("its derivative has no graph", _straight)


def _straight(right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    value = right(given)
    if not (x.requires_grad and torch.is_grad_enabled()):
        return value
    alone = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(right({**given, "self": alone}).sum(), alone)
    return grafted(value, x * slope.detach())


FAULTS = (
    Fault("M15", ("gradient",), "scales a backward pass by another size", _scaled),
    Fault("M17", ("gradient",), "sends the gradient of equal extrema elsewhere", _ties),
    Fault("M18", ("gradient",), "does not sum a gradient over its broadcast axis", _unsummed),
    Fault("M31", ("derivatives",), "drops the graph of a derivative without a word", _silent_second),
)
