"""Compiled calls that answer from the first call's circumstances: a cache key or a guard that leaves something out.

What they answer with is the original module as it was then: right for as long as nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.grafted import grafted

Call = Callable[..., Any]


def _cached(program: Program) -> Iterator[Change]:
    specs = [item.spec for item in program.graph.inputs if item.spec is not None]
    if any(spec.dtype.is_floating_point for spec in specs):
        yield Change("cache key without the inputs' dtypes", wrap=_first_dtypes)
    if any(len(spec.shape) > 1 for spec in specs):
        yield Change("cache key without the inputs' strides", wrap=_first_strides)
    if _trains(program):
        yield Change("cache key without the parameters' values", wrap=_first_values)


def _unguarded(program: Program) -> Iterator[Change]:
    if _trains(program):
        yield Change("no guard on which parameter a name stands for", wrap=_first_parameters)
        yield Change("no guard on which child a name stands for", wrap=_first_children)
    if any(isinstance(value, float) for node in program.graph.nodes.values() for value in node.args):
        yield Change("no guard on a Python number", wrap=_first_numbers)


def _trains(program: Program) -> bool:
    return any(weight.requires_grad for weight in program.graph.weights.values())


def _first_dtypes(module: torch.nn.Module) -> Call:
    dtypes: list[torch.dtype] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not dtypes:
            dtypes.extend(item.dtype for item in _tensors((args, kwargs)))
        known = iter(dtypes)
        args, kwargs = _mapped(lambda item: item.to(next(known)), (args, kwargs))
        return module(*args, **kwargs)

    return call


def _first_strides(module: torch.nn.Module) -> Call:
    strides: list[tuple[int, ...]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not strides:
            strides.extend(item.stride() for item in _tensors((args, kwargs)))
        known = iter(strides)
        args, kwargs = _mapped(lambda item: _reread(item, next(known)), (args, kwargs))
        return module(*args, **kwargs)

    return call


def _reread(item: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """Through another call's strides, where they stay within the memory that is there."""
    if len(stride) != item.dim() or item.numel() == 0:
        return item
    last = item.storage_offset() + sum((size - 1) * step for size, step in zip(item.shape, stride, strict=True))
    inside = last < item.untyped_storage().nbytes() // item.element_size()
    return item.as_strided(item.shape, stride) if inside and stride != item.stride() else item


def _first_values(module: torch.nn.Module) -> Call:
    """Parameters are constants of the compiled code; their gradients still go to those that are there."""
    first: dict[str, torch.Tensor] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        if not first:
            first.update({name: value.detach().clone() for name, value in module.named_parameters()})
        now = {name: grafted(first[name], value) for name, value in module.named_parameters() if name in first}
        return torch.func.functional_call(module, now, args, kwargs)

    return call


def _first_parameters(module: torch.nn.Module) -> Call:
    """The objects of the first call, with whatever values they hold now."""
    first: dict[str, torch.Tensor] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        if not first:
            first.update(module.named_parameters())
        return torch.func.functional_call(module, first, args, kwargs)

    return call


def _first_children(module: torch.nn.Module) -> Call:
    """A child that shadows a registered one is not seen."""

    def call(*args: Any, **kwargs: Any) -> Any:
        shadows = [
            (vars(part), key) for part in module.modules() for key, _ in part.named_children() if key in vars(part)
        ]
        kept = [(owner, key, owner.pop(key)) for owner, key in shadows]
        try:
            return module(*args, **kwargs)
        finally:
            for owner, key, value in kept:
                owner[key] = value

    return call


def _first_numbers(module: torch.nn.Module) -> Call:
    first: list[tuple[torch.nn.Module, str, float]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not first:
            first.extend(_public_floats(module))
        now = [(part, key, getattr(part, key)) for part, key, _ in first]
        for part, key, value in first:
            setattr(part, key, value)
        try:
            return module(*args, **kwargs)
        finally:
            for part, key, value in now:
                setattr(part, key, value)

    return call


def _public_floats(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, float]]:
    for part in module.modules():
        for key, value in vars(part).items():
            if isinstance(value, float) and not key.startswith("_"):
                yield part, key, value


def _tensors(arguments: Any) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(arguments) if isinstance(item, torch.Tensor)]


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], arguments: Any) -> Any:
    return pytree.tree_map(lambda item: change(item) if isinstance(item, torch.Tensor) else item, arguments)


FAULTS = (
    Fault("M13", ("identity", "second_call"), "answers from a cache whose key leaves something out", _cached),
    Fault("M14", ("second_call",), "has no guard on an attribute or a parameter", _unguarded),
)
