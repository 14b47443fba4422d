"""The second oracle: the original in its own dtype, with every sum in reverse order. It reports and never decides.

Where a subject is far from float64 a reader asks whether the original is too, and whether that is an accident of its
order of summation. A float64 program has no more exact oracle than itself: there the limits already hold the oracle's
own error, since sigma is sampled at float64's roundoff, and this run says how large that error is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.rounding import name_of

KIND = "eager_same_dtype"


class Reversed(TorchDispatchMode):
    """Runs products and sums over their terms from last to first, in the dtype that they have."""

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


def tie_break(expected: Expected, seen: torch.Tensor, second: torch.Tensor | None) -> str:
    """A sentence about the subject's worst element, for a finding's message; empty where nothing can be said.

    ``second`` is what the second oracle gave, None where it was not run.
    """
    values = [seen.detach(), expected.eager.detach(), *([] if second is None else [second.detach()])]
    if not seen.numel() or any(value.shape != expected.exact.shape for value in values):
        return ""
    if not (seen.is_floating_point() or seen.is_complex()):
        return ""
    subject, original, *others = [
        (value.to(expected.exact.dtype) - expected.exact).abs().reshape(-1) for value in values
    ]
    at = int(torch.nan_to_num(subject, nan=torch.inf).argmax())
    told = f"there the original errs by {float(original[at]):.3g}"
    if not others:
        return told
    told += f", and by {float(others[0][at]):.3g} with its sums in reverse order"
    nearest = max(float(original[at]), float(others[0][at]))
    if float(subject[at]) > 4 * nearest:
        return f"{told}: both are nearer to float64 than the subject"
    return f"{told}: the program is no more exact than that at this element"
