"""Units of work: what one operator, or one fused group of them, has to move and to compute.

Counts only, no times: the same work costs different times on different machines. Invariant: a row holds nothing that
names the program it came from, so equal work in two programs is one and the same row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any


class WorkKind(StrEnum):
    """What limits this kind of operator. ``view`` moves nothing and costs its dispatch alone."""

    GEMM = "gemm"
    CONVOLUTION = "conv"
    ATTENTION = "attn"
    NORMALISATION = "norm"
    REDUCTION = "red"
    POINTWISE = "pw"
    PICK = "pick"
    MOVE = "move"
    VIEW = "view"


# Kernels of a library, which a compiler calls as they are: nothing is fused into them.
EXTERNAL = frozenset({WorkKind.GEMM, WorkKind.CONVOLUTION, WorkKind.ATTENTION})


@dataclass(frozen=True, order=True)
class Work:
    """``ops`` operator calls that run as one kernel, or one after the other in eager mode.

    ``flops`` of matrix products and convolutions alone. ``bytes_read`` and ``bytes_written`` are what must pass through
    memory; of what is read, ``strided_bytes`` is against the order it lies in, and ``cold_bytes`` are inputs and
    weights, which the step before was the last to touch. ``grain`` is the smallest extent of a product (rows, columns
    or depth; input channels of a convolution's group), 0 where there is none. ``heavy`` counts elements by the costly
    function they go through (``exp``, ``erf``, ``softmax``, …).
    """

    kind: WorkKind
    ops: int
    flops: int
    bytes_read: int
    bytes_written: int
    strided_bytes: int = 0
    cold_bytes: int = 0
    grain: int = 0
    heavy: tuple[tuple[str, int], ...] = ()

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    def as_json(self) -> list[Any]:
        return [*astuple(self)[:-1], dict(self.heavy)]

    @staticmethod
    def from_json(value: list[Any]) -> Work:
        kind, *numbers, heavy = value
        return Work(WorkKind(kind), *map(int, numbers), heavy=summed(heavy.items()))


Rows = tuple[tuple[Work, int], ...]
"""Rows with how often each occurs, in a fixed order."""


def counted(work: Iterable[Work]) -> Rows:
    return tuple(sorted(Counter(work).items()))


def summed(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Pairs of name and count with each name once, in order."""
    total: Counter[str] = Counter()
    for name, count in pairs:
        total[name] += int(count)
    return tuple(sorted(total.items()))
