"""Reductions that go wrong: another axis, a tail left out, another divisor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, places, single_axis

REDUCED = ("sum", "mean", "amax", "softmax", "log_softmax", "var", "cumsum")
VECTOR = 8  # lanes of float32 in an AVX2 register: a tail is what does not fill one
LONG = 4096  # one term of more is less than what rounding may do to the sum


def _other_axes(program: Program) -> Iterator[Change]:
    for place in places(program, REDUCED):
        spec = place.spec("self")
        axis = None if spec is None else single_axis(place.given.get("dim"), len(spec.shape))
        if spec is None or axis is None or not spec.dtype.is_floating_point:
            continue
        for other, size in enumerate(spec.shape):
            if other != axis and size == spec.shape[axis] and size > 1:
                yield place.change(f"over axis {other}, not {axis}", _along(other))


def _along(axis: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        return right({**given, "dim": [axis] if isinstance(given["dim"], list) else axis})

    return operator


def _short_tails(program: Program) -> Iterator[Change]:
    for place in places(program, ("sum", "mean", "amax", "softmax", "matmul", "linear")):
        contracted = place.op in ("matmul", "linear")
        spec = place.spec("input" if place.op == "linear" else "self")
        if spec is None or not spec.dtype.is_floating_point or not spec.shape:
            continue
        axis = len(spec.shape) - 1 if contracted else single_axis(place.given.get("dim"), len(spec.shape))
        if axis is not None and 1 < spec.shape[axis] < LONG and spec.shape[axis] % VECTOR:
            yield place.change(f"without element {spec.shape[axis] - 1} of axis {axis}", _TAILS[place.op](axis))


def _narrowed(axis: int) -> Operator:
    """Where the size is a whole number of vectors there is no tail, and the operator is right."""

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        size = given["self"].shape[axis]
        if size % VECTOR == 0:
            return right(given)
        return right({**given, "self": given["self"].narrow(axis, 0, size - 1)})

    return operator


def _mean_of_narrowed(axis: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        size = given["self"].shape[axis]
        short = _narrowed(axis)(right, given)
        return short if size % VECTOR == 0 else short * ((size - 1) / size)

    return operator


def _softmax_of_narrowed(axis: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        scores = given["self"]
        size = scores.shape[axis]
        if size % VECTOR == 0:
            return right(given)
        last = torch.arange(size).view([-1 if axis == item else 1 for item in range(scores.dim())]) == size - 1
        return right({**given, "self": scores.masked_fill(last, -torch.inf)})

    return operator


def _contraction_of_narrowed(left: str, right_name: str, right_axis: int) -> Callable[[int], Operator]:
    def of_axis(_axis: int) -> Operator:
        def operator(right: Callable[[Given], Any], given: Given) -> Any:
            size = given[left].shape[-1]
            if size % VECTOR == 0:
                return right(given)
            shorter = {left: given[left][..., :-1], right_name: given[right_name].narrow(right_axis, 0, size - 1)}
            return right({**given, **shorter})

        return operator

    return of_axis


_TAILS: dict[str, Callable[[int], Operator]] = {
    "sum": _narrowed,
    "mean": _mean_of_narrowed,
    "amax": _narrowed,
    "softmax": _softmax_of_narrowed,
    "matmul": _contraction_of_narrowed("self", "other", -2),
    "linear": _contraction_of_narrowed("input", "weight", -1),
}


def _other_divisors(program: Program) -> Iterator[Change]:
    for place in places(program, ("var", "layer_norm")):
        if place.op == "var" and "correction" not in place.given:
            yield place.change("divided by n", lambda right, given: right({**given, "unbiased": False}))
        elif place.op == "layer_norm" and _width(place) > 1:
            yield place.change("variance divided by n - 1", _unbiased_layer_norm)


def _width(place: Place) -> int:
    shape = place.given["normalized_shape"]
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 and isinstance(shape[0], int) else 0


def _unbiased_layer_norm(_right: Callable[[Given], Any], given: Given) -> Any:
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    centred = x - x.mean(-1, keepdim=True)
    value = centred * torch.rsqrt(x.var(-1, keepdim=True) + given.get("eps", 1e-5))
    return value * (1 if weight is None else weight) + (0 if bias is None else bias)


FAULTS = (
    Fault("M01", ("forward", "ladder"), "reduces over another axis of equal size", _other_axes),
    Fault("M02", ("forward", "ladder"), "leaves the last element of a tail out", _short_tails),
    Fault("M06", ("forward",), "divides a variance by n for n - 1, or the reverse", _other_divisors),
)
