"""A kernel that is chosen by the size of the batch: every one of them is right, and they round differently.

That is honest, unless batch invariance is declared. Only programs without products: libraries choose theirs by size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.places import places, single_axis

SMALL = 4
PRODUCTS = ("linear", "matmul", "conv2d", "scaled_dot_product_attention")


def _by_size(program: Program) -> Iterator[Change]:
    if any(True for _ in places(program, PRODUCTS)):
        return
    for place in places(program, ("sum", "mean")):
        spec = place.spec("self")
        if spec is None or spec.dtype != torch.float32 or len(spec.shape) < 2 or spec.shape[-1] <= SMALL:
            continue
        if single_axis(place.given.get("dim"), len(spec.shape)) == len(spec.shape) - 1:
            yield Change(f"sums along the last axis in another order for batches above {SMALL}", wrap=_ordered_by_size)
            return


class _Sums(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        axis = args[1] if len(args) > 1 else named.get("dim")
        if name not in ("sum", "mean") or axis != -1 or args[0].shape[0] <= SMALL:
            return func(*args, **named)
        x = args[0]
        total = torch.zeros_like(x[..., 0])
        for term in x.unbind(-1):
            total = total + term
        return total / x.shape[-1] if name == "mean" else total


def _ordered_by_size(module: torch.nn.Module) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _Sums():
            return module(*args, **kwargs)

    return call


FAULTS = (Fault("M38", ("batch_invariance",), "rounds by the size of the batch", _by_size),)
