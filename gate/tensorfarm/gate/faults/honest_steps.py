"""Honest variants of single steps: other recurrences, quotients and functions, each right to an ulp or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.honest_forms import scaled, wide
from tensorfarm.gate.faults.interpreted import Given
from tensorfarm.gate.faults.places import places

LANES = 4
# What libraries of vector functions promise to an ulp, and a device to two. Exact results are not among them.
ELEMENTARY = ("exp", "exp2", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "rsqrt")


def _welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and sum of squares along the last axis, lane by lane as a vector unit does, the lanes then joined."""
    blocks = x.split(LANES, -1)
    mean, squares, count = torch.zeros_like(blocks[0]), torch.zeros_like(blocks[0]), 0
    for block in [item for item in blocks if item.shape[-1] == blocks[0].shape[-1]]:
        count += 1
        step = block - mean
        mean = mean + step / count
        squares = squares + step * (block - mean)
    parts = [(mean[..., lane], squares[..., lane], count) for lane in range(mean.shape[-1])]
    rest = blocks[-1] if blocks[-1].shape[-1] < blocks[0].shape[-1] else x[..., :0]
    parts += [(value, torch.zeros_like(value), 1) for value in rest.unbind(-1)]
    total, spread, seen = parts[0]
    for other, more, size in parts[1:]:
        step, seen = other - total, seen + size
        total = total + step * (size / seen)
        spread = spread + more + step * step * ((seen - size) * size / seen)
    return total, spread


def _layer_norm(_right: Callable[[Given], Any], given: Given) -> Any:
    x = wide(given["input"])
    mean, squares = _welford(x)
    inverse = torch.rsqrt(squares / x.shape[-1] + given["eps"])
    return scaled((x - mean.unsqueeze(-1)) * inverse.unsqueeze(-1), given)


def _running(program: Program) -> Iterator[Change]:
    for place in places(program, ("layer_norm",)):
        shape = place.given["normalized_shape"]
        if isinstance(shape, tuple) and len(shape) == 1:
            yield place.change("mean and variance by recurrence", _layer_norm)


def _off_by_an_ulp(right: Callable[[Given], Any], given: Given) -> Any:
    """Every other result is the next number up, the others the next one down; special ones, zeros and one stay."""
    value = right(given)
    turns = torch.arange(value.numel(), device=value.device).reshape(value.shape) % 2
    towards = torch.where(turns == 0, math.inf, -math.inf).to(value.dtype)
    moved = torch.nextafter(value.detach(), towards)
    ordinary = value.isfinite() & moved.isfinite() & (value.detach().abs() >= torch.finfo(value.dtype).smallest_normal)
    ordinary &= value.detach().abs() != 1
    return torch.where(ordinary, value + (moved - value.detach()).detach(), value)


def _approximated(program: Program) -> Iterator[Change]:
    for place in places(program, ELEMENTARY):
        if place.result is not None and place.result.dtype.is_floating_point:
            yield place.change("off by an ulp", _off_by_an_ulp)


def _by_reciprocal(right: Callable[[Given], Any], given: Given) -> Any:
    return given["self"] * (1.0 / given["other"])


def _quotients(program: Program) -> Iterator[Change]:
    """Quotients by a number: by a tensor, the reciprocal would overflow where the quotient does not."""
    for place in places(program, ("div",)):
        number, result, whole = place.given.get("other"), place.result, place.given.get("rounding_mode")
        floating = result is not None and result.dtype.is_floating_point
        if isinstance(number, (int, float)) and floating and whole is None:
            yield place.change("times the reciprocal", _by_reciprocal)


def _means(program: Program) -> Iterator[Change]:
    for place in places(program, ("mean",)):
        spec = place.spec("self")
        if spec is not None and spec.shape and place.result is not None:
            yield place.change("a sum times one over its length", _mean)


def _mean(_right: Callable[[Given], Any], given: Given) -> Any:
    x, axes = given["self"], given.get("dim") or list(range(given["self"].dim()))
    length = math.prod(x.shape[axis] for axis in axes)
    total = wide(x).sum(axes, keepdim=given.get("keepdim", False)) * (1.0 / length)
    return total.to(given.get("dtype") or x.dtype)


HONEST = (
    Fault("H27", (), "means as a sum times one over its length", _means),
    Fault("H36", (), "mean and variance by recurrence, lane by lane", _running),
    Fault("H37", (), "elementary functions off by an ulp", _approximated),
    Fault("H38", (), "quotients by a number as products with its reciprocal", _quotients),
)
