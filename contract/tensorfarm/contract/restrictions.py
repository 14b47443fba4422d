"""What ``torch.export`` lets through and a program cannot be: seen before conversion, refused in one line.

Invariant: nothing is refused here that compilers and subjects could run and judges could hold against the original.
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

from tensorfarm.contract import ops
from tensorfarm.contract.conversion import place_of
from tensorfarm.contract.graph import IllegalGraph


def refuse_unsupported(program: ExportedProgram) -> None:
    """Raise IllegalGraph at the first custom operator, or where torch would mix up two inputs."""
    for body in program.graph_module.modules():
        if isinstance(body, torch.fx.GraphModule):
            _refuse_custom_operators(body)
    _refuse_mixed_up_inputs(program.graph)


def _refuse_custom_operators(body: torch.fx.GraphModule) -> None:
    """Compilers and subjects never import the factory's module, so they know no operator that only it registers."""
    for node in body.graph.nodes:
        if isinstance(node.target, OpOverload) and node.target.namespace not in ops.SHIPPED_NAMESPACES:
            raise IllegalGraph(
                f"node {node.name} at {place_of(node)} calls the custom operator {ops.name_of(node.target)}",
                limit="operators that torch itself registers",
                next_step="write that part of the model with torch's own operators",
            )


def _refuse_mixed_up_inputs(graph: torch.fx.Graph) -> None:
    """The code that torch generates calls an input ``input`` ``input_1``, over one of that name (seen in 2.13)."""
    names = {node.name for node in graph.nodes if node.op == "placeholder"}
    for name in sorted(names):
        other = torch.fx.Graph().placeholder(name).name
        if other != name and other in names:
            raise IllegalGraph(
                f"forward takes {name} and {other}, which torch.export mixes up",
                next_step=f"give {name} a name that is no Python builtin",
            )
