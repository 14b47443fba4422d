"""Operators that take the wrong operand, or the right one the wrong way round or along the wrong axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorfarm.contract.graph import Ref
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, places

BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "floor_divide")


def _swapped(program: Program) -> Iterator[Change]:
    for place in places(program, ("sub", "div", "matmul")):
        left, right = place.spec("self"), place.spec("other")
        if left is None or not _is_floating(place):
            continue
        if right is None and place.op in ("sub", "div") and isinstance(place.given["other"], int | float):
            yield place.change("operands swapped", _SCALARS[place.op])
        elif right is not None and left.dtype == right.dtype and (place.op != "matmul" or left.shape == right.shape):
            yield place.change("operands swapped", _swap)


def _is_floating(place: Place) -> bool:
    """Integers are another family's: every value of them is required, whatever its size."""
    return place.result is not None and place.result.dtype.is_floating_point


def _swap(right: Callable[[Given], Any], given: Given) -> Any:
    return right({**given, "self": given["other"], "other": given["self"]})


_SCALARS: dict[str, Operator] = {
    "sub": lambda _right, given: given["other"] - given["self"],
    "div": lambda _right, given: given["other"] / given["self"],
}


def _first_rows(program: Program) -> Iterator[Change]:
    for place in places(program, BINARY):
        for name in ("self", "other"):
            spec = place.spec(name)
            shape = place.result.shape if place.result else ()
            if spec is not None and spec.shape == shape and shape and shape[0] > 1 and _is_floating(place):
                yield place.change(f"{name} read as its first row", _row(name))


def _row(name: str) -> Operator:
    """As wide as before, so that only the values tell."""

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        whole = given[name]
        return right({**given, name: whole[:1].expand_as(whole)})

    return operator


def _wrong_axes(program: Program) -> Iterator[Change]:
    for place in places(program, BINARY):
        for name in ("self", "other"):
            if isinstance(place.given.get(name), Ref) and _fits_another_axis(place, name):
                yield place.change(f"{name} broadcast along the last axis", _columns(name))


def _fits_another_axis(place: Place, name: str) -> bool:
    spec, result = place.spec(name), place.result
    if spec is None or result is None or len(spec.shape) != 1 or len(result.shape) < 2 or spec.shape[0] < 2:
        return False
    return result.shape[-1] == result.shape[-2] == spec.shape[0]


def _columns(name: str) -> Operator:
    return lambda right, given: right({**given, name: given[name].unsqueeze(-1)})


FAULTS = (
    Fault("M04", ("forward",), "swaps the operands of a difference, a quotient or a product", _swapped),
    Fault("M11", ("forward",), "reads the first row of an operand for every row", _first_rows),
    Fault("M12", ("forward", "ladder"), "broadcasts along the wrong one of two equal axes", _wrong_axes),
)
