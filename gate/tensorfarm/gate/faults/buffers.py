"""Memory that is shared, reused, not written back, or laid out another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.graph import OutputKind, Ref
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, place

# Their results are memory of their own: a view would share it rightly.
POINTWISE = (
    *("add", "sub", "mul", "div", "floor_divide", "reciprocal", "abs", "neg", "clone", "cumsum", "masked_fill"),
    *("relu", "gelu", "tanh", "exp", "sigmoid", "log1p", "clamp", "maximum", "minimum"),
    *("softmax", "layer_norm", "rms_norm"),
)


def _overwritten(found: Place) -> Iterator[tuple[str, str]]:
    """Operands that the result fits into exactly, as (argument, value)."""
    if found.op not in POINTWISE or found.result is None:
        return
    for name, value in found.given.items():
        spec = found.spec(name)
        if isinstance(value, Ref) and spec and (spec.shape, spec.dtype) == (found.result.shape, found.result.dtype):
            yield name, value.name


def _early_reuse(program: Program) -> Iterator[Change]:
    graph = program.graph
    order = list(graph.nodes)
    for node in graph.nodes.values():
        found = place(graph, node)
        for name, value in _overwritten(found):
            later = [user for user in graph.users().get(value, []) if order.index(user) > order.index(node.name)]
            if value in graph.nodes and (later or value in graph.output_names()):
                yield found.change(f"written over {value}, which is still read", _in_place(name))


def _elided_clones(program: Program) -> Iterator[Change]:
    inputs = {item.name for item in program.graph.inputs}
    written = {output.target for output in program.graph.outputs if output.kind is OutputKind.MUTATES_INPUT}
    for node in program.graph.nodes.values():
        found = place(program.graph, node)
        for name, value in _overwritten(found):
            if value in inputs - written and found.op != "clone":
                yield found.change(f"written over the caller's {value}", _in_place(name))


def _in_place(name: str) -> Operator:
    """Past autograd, as a kernel writes: no version counter tells."""

    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        value = right(given)
        given[name].data.copy_(value.data)
        return value

    return operator


def _dropped_writes(program: Program) -> Iterator[Change]:
    for position, output in enumerate(program.graph.outputs):
        if output.kind is not OutputKind.USER:
            changed = program.graph.copy()
            changed.outputs = tuple(item for other, item in enumerate(changed.outputs) if other != position)
            yield Change(f"{output.kind.value} {output.target}: dropped", graph=changed)


def _contiguous_outputs(program: Program) -> Iterator[Change]:
    for output in program.graph.outputs:
        if (
            output.kind is OutputKind.USER
            and isinstance(output.value, Ref)
            and output.value.name in program.graph.nodes
        ):
            found = place(program.graph, program.graph.nodes[output.value.name])
            result = found.result
            if result and not found.node.many and result.stride != _dense(result.shape):
                yield found.change("returned contiguous", lambda right, given: right(given).contiguous())


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


FAULTS = (
    Fault("M19", ("forward", "mutation"), "reuses a buffer that is still read", _early_reuse),
    Fault("M20", ("mutation",), "elides the copy that protects an input", _elided_clones),
    Fault("M21", ("mutation",), "drops what is written back to an input or buffer", _dropped_writes),
    Fault("M22", ("metadata",), "returns another layout", _contiguous_outputs),
)
