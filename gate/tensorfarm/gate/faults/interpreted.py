"""A captured graph that runs operator by operator, with single operators replaced by Python functions.

Its weights lie under their qualified names, so that they can be swapped and their gradients named as the original's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Graph, Node, OutputKind, WeightKind
from tensorfarm.contract.program import Program
from tensorfarm.gate.subject.by_operator import actual

# An operator's actual arguments by the names of its schema, defaults left out.
Given: TypeAlias = dict[str, Any]
# What stands in an operator's place: it is handed the right one, to call or not, and the arguments.
Operator: TypeAlias = Callable[[Callable[[Given], Any], Given], Any]


class Interpreted(torch.nn.Module):
    """Takes the program's tensor inputs in order and returns the flat user outputs, as an artifact does."""

    def __init__(
        self, program: Program, graph: Graph | None = None, operators: Mapping[str, Operator] | None = None
    ) -> None:
        super().__init__()
        self._source = program.graph if graph is None else graph
        self._operators = dict(operators or {})
        for weight in self._source.weights.values():
            tensor = program.weights[weight.name].clone(memory_format=torch.preserve_format)
            owner, name = self._owner(weight.target)
            if weight.kind is WeightKind.PARAMETER:
                owner.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=weight.requires_grad))
            else:
                owner.register_buffer(name, tensor)

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        values: dict[str, Any] = {item.name: item.literal for item in self._source.inputs if item.spec is None}
        names = [item.name for item in self._source.inputs if item.spec is not None]
        values |= dict(zip(names, inputs, strict=True))
        places = {weight.target: self._weight(weight.target) for weight in self._source.weights.values()}
        values |= {weight.name: places[weight.target] for weight in self._source.weights.values()}
        self._keep_old_values(values, places)
        for node in self._source.nodes.values():
            values[node.name] = self._called(node, values)
        for output in self._source.outputs:
            written = actual(output.value, values)
            if output.kind is OutputKind.MUTATES_BUFFER:
                places[output.target].copy_(written.detach())
            elif output.kind is OutputKind.MUTATES_INPUT:
                places[output.target].copy_(written)
        return tuple(actual(item.value, values) for item in self._source.outputs if item.kind is OutputKind.USER)

    def _called(self, node: Node, values: Mapping[str, Any]) -> Any:
        target = ops.resolve(node.op)
        positional = [actual(item, values) for item in node.args]
        named = {key: actual(item, values) for key, item in node.kwargs}
        replaced = self._operators.get(node.name)
        if replaced is None:
            return target(*positional, **named)
        names = formals(node.op)
        given = {**dict(zip(names, positional, strict=False)), **named}
        return replaced(lambda changed: _call(target, names, changed), given)

    def _keep_old_values(self, values: dict[str, Any], places: dict[str, torch.Tensor]) -> None:
        """Compute from a copy of what will be written: autograd may save the old value for its backward."""
        names = {weight.target: weight.name for weight in self._source.weights.values()}
        for output in self._source.outputs:
            if output.kind is OutputKind.USER:
                continue
            name = names[output.target] if output.kind is OutputKind.MUTATES_BUFFER else output.target
            places[output.target] = values[name]
            values[name] = values[name].clone(memory_format=torch.preserve_format)

    def _owner(self, target: str) -> tuple[torch.nn.Module, str]:
        *path, name = target.split(".")
        owner: torch.nn.Module = self
        for part in path:
            if part not in dict(owner.named_children()):
                owner.add_module(part, torch.nn.Module())
            owner = owner.get_submodule(part)
        return owner, name

    def _weight(self, target: str) -> torch.Tensor:
        owner, name = self._owner(target)
        return getattr(owner, name)


def formals(op: str) -> tuple[str, ...]:
    """Names of the positional arguments of an operator."""
    schema = ops.schema_of(op)
    return () if schema is None else tuple(item.name for item in schema.arguments if not item.kwarg_only)


def _call(target: Callable[..., Any], names: tuple[str, ...], given: Given) -> Any:
    """Positional as far as they go without a gap; operators take ``self`` by position alone."""
    count = next((number for number, name in enumerate(names) if name not in given), len(names))
    positional = [given[name] for name in names[:count]]
    return target(*positional, **{key: value for key, value in given.items() if key not in names[:count]})
