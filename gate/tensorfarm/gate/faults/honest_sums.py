"""Honest variants of sums and products: another order, other blocks, wider inside. A gate must let all of them pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import places, single_axis

BLOCKS = (3, 8, 16)
SHORT = 1024
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _of_products(what: str, product: Product) -> Callable[[Program], Iterator[Change]]:
    """Every product of a program computed by ``product``, which multiplies matrices."""

    def changes(program: Program) -> Iterator[Change]:
        for place in places(program, ("linear", "matmul")):
            result, left = place.result, place.spec("input" if place.op == "linear" else "self")
            if result is not None and left is not None and len(left.shape) > 1 and result.dtype.is_floating_point:
                yield place.change(what, _linear(product) if place.op == "linear" else _matmul(product))

    return changes


def _linear(product: Product) -> Operator:
    def operator(_right: Callable[[Given], Any], given: Given) -> Any:
        value = product(given["input"], given["weight"].transpose(-1, -2)).to(given["input"].dtype)
        return value if given.get("bias") is None else value + given["bias"]

    return operator


def _matmul(product: Product) -> Operator:
    return lambda _right, given: product(given["self"], given["other"]).to(given["self"].dtype)


def _blocked(size: int) -> Product:
    """Partial sums over ``size`` terms, kept in the type that the accumulation has."""

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        pairs = zip(left.float().split(size, -1), right.float().split(size, -2), strict=True)
        parts = [one @ other for one, other in pairs]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    return product


def _reversed_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """In float32: kernels for half precision may read the next row where the number of terms is odd, and give NaN for
    the NaN that stands there."""
    return left.float().flip(-1) @ right.float().flip(-2)


def _wide_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left.double() @ right.double()


def _turned_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (right.transpose(-1, -2) @ left.transpose(-1, -2)).transpose(-1, -2).contiguous()


def _row_by_row(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cat([row @ right for row in left.split(1, -2)], -2)


def _term_by_term(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """No dot product at all: every product written out, then summed."""
    return (left.float().unsqueeze(-1) * right.float().unsqueeze(-3)).sum(-2)


def _of_sums(
    what: str, summed: Callable[[torch.Tensor, int], torch.Tensor], *, short: bool = False
) -> Callable[[Program], Iterator[Change]]:
    """Sums and means along one axis; ``summed`` keeps the axis. ``short``: its order is no blocked one."""

    def changes(program: Program) -> Iterator[Change]:
        for place in places(program, ("sum", "mean")):
            spec, result = place.spec("self"), place.result
            if spec is None or result is None or not spec.dtype.is_floating_point or not spec.shape:
                continue
            if short and max(spec.shape) > SHORT:
                continue
            whole = place.given.get("dim") is None
            if (whole and len(spec.shape) == 1) or single_axis(place.given.get("dim"), len(spec.shape)) is not None:
                yield place.change(what, _summing(summed, place.op == "mean"))

    return changes


def _summing(summed: Callable[[torch.Tensor, int], torch.Tensor], mean: bool) -> Operator:
    def operator(_right: Callable[[Given], Any], given: Given) -> Any:
        x = given["self"]
        axis = given["dim"][0] if given.get("dim") else 0
        total = summed(x, axis)
        total = total / x.shape[axis] if mean else total
        kept = total if given.get("keepdim", False) else total.squeeze(axis)
        return kept.to(given.get("dtype") or x.dtype)

    return operator


def _blocked_sum(size: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
    def summed(x: torch.Tensor, axis: int) -> torch.Tensor:
        count = max(x.shape[axis] // 64, size)
        parts = [part.float().sum(axis, keepdim=True) for part in x.split(count, axis)]
        return torch.cat(parts, axis).sum(axis, keepdim=True)

    return summed


def _reversed_sum(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.flip(axis).float().sum(axis, keepdim=True)


def _wide_sum(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.double().sum(axis, keepdim=True)


def _halved_sum(x: torch.Tensor, axis: int) -> torch.Tensor:
    """A tree: halves are added until one element is left."""
    value = x.float()
    while value.shape[axis] > 1:
        half = value.shape[axis] // 2
        rest = value.narrow(axis, 2 * half, value.shape[axis] - 2 * half)
        pairs = value.narrow(axis, 0, half) + value.narrow(axis, half, half)
        value = torch.cat([pairs, rest], axis)
    return value


def _sum_of_products(x: torch.Tensor, axis: int) -> torch.Tensor:
    """As a product with a vector of ones."""
    moved = x.float().movedim(axis, -1)
    return (moved @ torch.ones(moved.shape[-1], 1)).movedim(-1, axis)


HONEST = (
    *(Fault(f"H{10 + n}", (), f"products in blocks of {size}", _of_products(f"blocks of {size}", _blocked(size)))
      for n, size in enumerate(BLOCKS)),
    Fault("H13", (), "products from the last term to the first", _of_products("reversed", _reversed_product)),
    Fault("H14", (), "products in float64, rounded once", _of_products("float64", _wide_product)),
    Fault("H15", (), "products of the transposed factors", _of_products("transposed", _turned_product)),
    Fault("H16", (), "products row by row", _of_products("row by row", _row_by_row)),
    Fault("H17", (), "products written out term by term", _of_products("term by term", _term_by_term)),
    *(Fault(f"H{20 + n}", (), f"sums in blocks of {size} or more", _of_sums(f"blocks of {size}", _blocked_sum(size)))
      for n, size in enumerate(BLOCKS)),
    Fault("H23", (), "sums from the last term to the first", _of_sums("reversed", _reversed_sum)),
    Fault("H24", (), "sums in float64, rounded once", _of_sums("float64", _wide_sum)),
    Fault("H25", (), "sums as a tree", _of_sums("a tree", _halved_sum)),
    Fault("H26", (), "sums as a product with ones", _of_sums("product with ones", _sum_of_products, short=True)),
)  # fmt: skip
