"""Finding sites: nodes by operator, their arguments by name, what is known of an operand before it is there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Argument, Graph, Node, Ref, TensorSpec
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change
from tensorfarm.gate.faults.interpreted import Operator, formals


@dataclass(frozen=True)
class Place:
    """A node. ``given`` are its arguments by name, defaults included; ``op`` lacks namespace and overload (``add``)."""

    graph: Graph
    node: Node
    op: str
    given: dict[str, Argument]

    def spec(self, name: str) -> TensorSpec | None:
        """The tensor that is given as ``name``; None where a number, a list or nothing is."""
        value = self.given.get(name)
        return self.graph.spec_of(value.name) if isinstance(value, Ref) else None

    @property
    def result(self) -> TensorSpec | None:
        return self.node.results[0] if self.node.results else None

    def change(self, what: str, operator: Operator) -> Change:
        return Change(f"{self.node.name} ({self.node.op}): {what}", {self.node.name: operator})


def places(program: Program, wanted: Collection[str]) -> Iterator[Place]:
    """Nodes that call one of ``wanted``, which are names without namespace and overload."""
    for node in program.graph.nodes.values():
        op = node.op if node.op == ops.GETITEM else node.op.split(".")[1]
        if op in wanted:
            yield place(program.graph, node)


def place(graph: Graph, node: Node) -> Place:
    schema = ops.schema_of(node.op)
    defaults: dict[str, Argument] = {}
    if schema is not None:
        defaults = {item.name: item.default_value for item in schema.arguments if item.has_default_value()}
    by_position = dict(zip(formals(node.op), node.args, strict=False))
    op = node.op if schema is None else node.op.split(".")[1]
    return Place(graph, node, op, {**defaults, **by_position, **dict(node.kwargs)})


def is_an_input(graph: Graph, name: str) -> bool:
    """True for an input, transposed or not: it holds exact integers where the inputs do."""
    if name in graph.nodes and graph.nodes[name].op in ("aten.t.default", "aten.transpose.int"):
        return all(is_an_input(graph, item) for item in graph.nodes[name].operands())
    return any(item.name == name for item in graph.inputs)


def single_axis(value: Argument, rank: int) -> int | None:
    """The one axis that a ``dim`` argument names, counted from the front; None where it names none or several."""
    axes = value if isinstance(value, tuple) else (value,)
    if len(axes) != 1 or not isinstance(axes[0], int) or rank == 0:
        return None
    return axes[0] % rank
