"""A graph as Python that needs torch alone: one function, a line a node, cut down to what the asked values depend on.

Invariant: the function calls the graph's operators with its arguments, in its order; values keep their names.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Argument, Graph, Node, OutputKind, Ref, TargetDevice, references

# What the scripts themselves call; a value of that name gets another one.
_TAKEN = frozenset({"aten", "captured", "compiled", "complex", "culprit_off", "float", "torch"})
_WIDTH = 110


def identifier(name: str) -> str:
    """The Python name of a value."""
    return f"{name}_" if name in _TAKEN else name


def needed(graph: Graph, values: Iterable[Argument]) -> set[str]:
    """Names of all inputs, weights and nodes that ``values`` depend on."""
    found, stack = set[str](), [name for value in values for name in references(value)]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(graph.nodes[name].operands() if name in graph.nodes else ())
    return found


def tensors_of(graph: Graph, values: Iterable[Argument]) -> list[str]:
    """Tensor inputs and weights that ``values`` depend on, in the graph's order."""
    wanted = needed(graph, values)
    names = [item.name for item in graph.inputs if item.spec is not None] + list(graph.weights)
    return [name for name in names if name in wanted]


def cut_function(name: str, about: str, graph: Graph, values: Sequence[Argument]) -> list[str]:
    """Lines of a function of the tensors, by keyword, that returns ``values`` as a tuple and computes nothing else."""
    wanted = needed(graph, values)
    text = _Text(graph)
    lines = [text.call(node) for node in graph.nodes.values() if node.name in wanted]
    return _function(name, about, tensors_of(graph, values), lines, [text.argument(value) for value in values])


def whole_function(name: str, about: str, graph: Graph) -> list[str]:
    """Lines of a function that does all that the graph does, and writes to inputs and buffers as it does.

    Written values are computed from copies: autograd may keep the old value.
    """
    places = {weight.target: weight.name for weight in graph.weights.values()}
    written = {
        output.target if output.kind is OutputKind.MUTATES_INPUT else places[output.target]: output
        for output in graph.outputs
        if output.kind is not OutputKind.USER
    }
    text = _Text(graph, {place: f"{identifier(place)}_before" for place in written})
    lines = [f"{text.names[place]} = aten.clone.default({identifier(place)})" for place in written]
    lines += [text.call(node) for node in graph.nodes.values()]
    for place, output in written.items():
        value = text.argument(output.value)
        value = f"aten.detach.default({value})" if output.kind is OutputKind.MUTATES_BUFFER else value
        lines.append(f"aten.copy_.default({identifier(place)}, {value})")
    given = [item.name for item in graph.inputs if item.spec is not None] + list(graph.weights)
    returned = [text.argument(output.value) for output in graph.outputs if output.kind is OutputKind.USER]
    return _function(name, about, given, lines, returned)


def with_differences_marked(lines: Sequence[str], other: Sequence[str], mark: str) -> list[str]:
    """``lines`` with a comment after each assignment that ``other`` has not."""
    known = set(other)
    return [f"{line}  # {mark}" if " = " in line and line not in known else line for line in lines]


def _function(
    name: str, about: str, parameters: Sequence[str], lines: Sequence[str], returned: Sequence[str]
) -> list[str]:
    listed = textwrap.wrap(", ".join([*map(identifier, parameters), "**_"]), _WIDTH)
    head = [f"def {name}(", *(f"    {line}" for line in listed), "):", f'    """{about}"""']
    return [*head, *(f"    {line}" for line in lines), f"    return ({', '.join(returned)},)"]


class _Text:
    """Spells calls and arguments. ``names`` are those that differ from the graph's."""

    def __init__(self, graph: Graph, names: dict[str, str] | None = None) -> None:
        self.literals = {item.name: item.literal for item in graph.inputs if item.spec is None}
        self.names = names or {}

    def call(self, node: Node) -> str:
        if node.op == ops.GETITEM:
            many, index = map(self.argument, node.args)
            return f"{identifier(node.name)} = {many}[{index}]"
        given = [self.argument(item) for item in node.args]
        given += [f"{key}={self.argument(item)}" for key, item in node.kwargs]
        operator = node.op if node.op.startswith("aten.") else f"torch.ops.{node.op}"
        return f"{identifier(node.name)} = {operator}({', '.join(given)})"

    def argument(self, value: Argument) -> str:
        if isinstance(value, Ref):
            if value.name in self.literals:
                return self.argument(self.literals[value.name])
            return self.names.get(value.name, identifier(value.name))
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.argument, value))}]"
        if isinstance(value, TargetDevice):
            return '"cpu"'
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, complex):
            return f"complex({self.argument(value.real)}, {self.argument(value.imag)})"
        return repr(value)
