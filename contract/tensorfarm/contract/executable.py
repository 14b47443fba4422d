"""A graph as something that runs: an ``fx.GraphModule`` over its weights, differentiable by plain autograd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Argument, Graph, OutputKind, Ref, TargetDevice, WeightKind


def executable(graph: Graph, weights: Mapping[str, torch.Tensor], device: str = "cpu") -> torch.fx.GraphModule:
    """Build a module that takes the graph's tensor inputs in order and returns its user outputs as a tuple.

    ``weights`` maps a graph weight's name to its tensor; parameters that require a gradient become ``nn.Parameter``
    under the weight's graph name. Values written back to inputs or buffers are copied at the end, in output order.
    """
    root = torch.nn.Module()
    for weight in graph.weights.values():
        tensor = weights[weight.name].to(device)
        if weight.kind is WeightKind.PARAMETER:
            root.register_parameter(weight.name, torch.nn.Parameter(tensor, requires_grad=weight.requires_grad))
        else:
            root.register_buffer(weight.name, tensor)
    return torch.fx.GraphModule(root, _Translation(graph, torch.device(device)).graph)


class _Translation:
    def __init__(self, graph: Graph, device: torch.device) -> None:
        self.source = graph
        self.device = device
        self.graph = torch.fx.Graph()
        self.values: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        for item in graph.inputs:
            self.values[item.name] = self._placeholder(item.name) if item.spec else item.literal
        for name in graph.weights:
            self.values[name] = self.graph.get_attr(name)
        self._keep_old_values()
        for node in graph.nodes.values():
            arguments = tuple(self._argument(value) for value in node.args)
            named = {key: self._argument(value) for key, value in node.kwargs}
            # Named by fx, not afterwards: a name that is taken already must become another one.
            operator = ops.resolve(node.op)
            self.values[node.name] = self.graph.create_node("call_function", operator, arguments, named, node.name)
        self._write_back()
        returned = [self._argument(item.value) for item in graph.outputs if item.kind is OutputKind.USER]
        self.graph.output(tuple(returned))

    def _placeholder(self, name: str) -> torch.fx.Node:
        """An argument under the name that fx gives its value, which is another one for ``input`` or ``sum``.

        Were they two names, the generated code would assign one to the other over an argument of that name.
        """
        made = self.graph.placeholder(name)
        made.target = made.name
        return made

    def _keep_old_values(self) -> None:
        """Compute from a copy of what will be written: autograd may save the old value for its backward."""
        by_target = {weight.target: weight.name for weight in self.source.weights.values()}
        for output in self.source.outputs:
            if output.kind is not OutputKind.USER:
                name = by_target[output.target] if output.kind is OutputKind.MUTATES_BUFFER else output.target
                self.places[output.target] = self.values[name]
                self.values[name] = self.graph.call_function(torch.ops.aten.clone.default, (self.values[name],))

    def _write_back(self) -> None:
        for output in self.source.outputs:
            if output.kind is OutputKind.USER:
                continue
            place = self.places[output.target]
            value = self._argument(output.value)
            if output.kind is OutputKind.MUTATES_BUFFER:
                value = self.graph.call_function(torch.ops.aten.detach.default, (value,))
            self.graph.call_function(torch.ops.aten.copy_.default, (place, value))

    def _argument(self, value: Argument) -> Any:
        if isinstance(value, Ref):
            return self.values[value.name]
        if isinstance(value, TargetDevice):
            return self.device
        if isinstance(value, tuple):
            return [self._argument(item) for item in value]
        return value
