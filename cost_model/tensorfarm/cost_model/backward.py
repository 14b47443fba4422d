"""What taking gradients adds to a step, by the forward's work: no backward graph is there before compiling.

A product's gradient is a product by each operand that wants one; anything else is passed once more, with the gradient
beside it. The factors are rules of thumb: calibration fits training apart from inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tensorfarm.contract.graph import Graph, Node, TensorSpec
from tensorfarm.cost_model.operators import Specs, packet
from tensorfarm.cost_model.work import Work, WorkKind

# Recomputing the scores and four products, against two products forward.
_ATTENTION_FLOPS = 2.5


def trained(graph: Graph) -> frozenset[str]:
    """Names of floating values that a gradient flows through."""
    found = {item.name for item in graph.inputs if item.requires_grad}
    found |= {weight.name for weight in graph.weights.values() if weight.requires_grad}
    for node in graph.nodes.values():
        floating = any(spec is not None and spec.dtype.is_floating_point for spec in node.results)
        if floating and not found.isdisjoint(node.operands()):
            found.add(node.name)
    return frozenset(found)


def backward_of(nodes: Sequence[Node], work: Work, path: frozenset[str], specs: Specs) -> list[Work]:
    """The gradient's work of ``nodes``, which forward are one ``work``; nothing where no gradient flows."""
    live = [node for node in nodes if node.name in path]
    if not live:
        return []
    tables = [
        _table_gradient(specs[name][0], work)
        for node in live
        if packet(node) == "embedding"
        for name in list(node.operands())[:1]
        if name in path
    ]
    wanted = len({name for node in live for name in node.operands() if name in path})
    match work.kind:
        case WorkKind.GEMM | WorkKind.CONVOLUTION:
            # A bias takes no product, only a sum that is small beside it.
            return [work] * min(wanted, 2)
        case WorkKind.ATTENTION:
            return [replace(work, flops=int(_ATTENTION_FLOPS * work.flops), bytes_read=2 * work.bytes_moved)]
        case WorkKind.VIEW:
            return [work]
        case _:
            if tables:
                return tables
            return [replace(work, ops=len(live), bytes_read=work.bytes_moved, bytes_written=work.bytes_read)]


def _table_gradient(table: TensorSpec, work: Work) -> Work:
    """An embedding's gradient is as large as its table, however little of it was picked."""
    return Work(WorkKind.PICK, 1, 0, work.bytes_written, math.prod(table.shape) * table.dtype.itemsize)
