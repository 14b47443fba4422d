"""Loads that take an input for another one in memory: contiguous, without its offset, or longer than it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.graph import Ref
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, place


def _input_reads(program: Program) -> Iterator[tuple[Place, str]]:
    """Operators that read a tensor input, once for each argument that is one."""
    inputs = {item.name for item in program.graph.inputs if item.spec is not None}
    for node in program.graph.nodes.values():
        found = place(program.graph, node)
        for name, value in found.given.items():
            if isinstance(value, Ref) and value.name in inputs:
                yield found, name


def _contiguous_loads(program: Program) -> Iterator[Change]:
    for found, name in _input_reads(program):
        spec = found.spec(name)
        if spec is not None and len(spec.shape) > 1:
            yield found.change(f"{name} read with contiguous strides", _as_contiguous(name))


def _as_contiguous(name: str) -> Operator:
    """As a kernel would that was built for a contiguous input: never past the end of the memory."""

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        x = given[name]
        if x.is_contiguous() or _elements(x) < x.storage_offset() + x.numel():
            return right(given)
        strides = torch.empty(x.shape, device="meta").stride()
        return right({**given, name: x.as_strided(x.shape, strides)})

    return operator


def _without_offset(program: Program) -> Iterator[Change]:
    for found, name in _input_reads(program):
        yield found.change(f"{name} read from the start of its storage", _from_start(name))


def _from_start(name: str) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        x = given[name]
        return right(given) if x.storage_offset() == 0 else right({**given, name: x.as_strided(x.shape, x.stride(), 0)})

    return operator


def _long_tails(program: Program) -> Iterator[Change]:
    for found, name in _input_reads(program):
        spec, result = found.spec(name), found.result
        if spec is None or result is None or found.node.many:
            continue
        if not spec.dtype.is_floating_point or len(spec.shape) < 2:
            continue
        rows = spec.shape[:-1]
        if result.dtype.is_floating_point and (result.shape == rows or result.shape[:-1] == rows):
            yield found.change(f"{name} read one element past each row, times zero", _past_the_end(name))


def _past_the_end(name: str) -> Operator:
    """What lies there has weight zero, so only what survives a product with zero shows."""

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        x, value = given[name].detach(), right(given)
        if x.dim() < 2 or x.numel() == 0:
            return value
        leaked = _after_rows(x) * 0
        leaked = leaked if leaked.shape == value.shape else leaked.unsqueeze(-1)
        return torch.where(leaked.isnan(), leaked.to(value.dtype), value)

    return operator


def _after_rows(x: torch.Tensor) -> torch.Tensor:
    """The element in memory behind the last one of each row; zero where the memory ends."""
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    places = torch.full((), int(x.storage_offset()) + x.shape[-1] * x.stride(-1))
    for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    inside = places < memory.numel()
    return torch.where(inside, memory[places.clamp(max=memory.numel() - 1)], torch.zeros((), dtype=x.dtype))


def _elements(x: torch.Tensor) -> int:
    return x.untyped_storage().nbytes() // x.element_size()


FAULTS = (
    Fault("M03", ("zero_influence", "errors"), "reads one element past each row", _long_tails),
    Fault("M23", ("layouts",), "reads an input with contiguous strides", _contiguous_loads),
    Fault("M24", ("layouts",), "reads an input without its storage offset", _without_offset),
)
