"""The canonical form of a graph: text that two captures share exactly when they compute the same thing the same way.

Values are numbered by a depth-first walk from the outputs, operands in schema order. So names, the order of independent
nodes, dead pure code, spelled-out default arguments, strides and placement leave no trace; operand order, constants by
their bits, dtypes, shapes, weight bytes, sharing, the order of random draws and how inputs and outputs nest all do. A
weight is its content: two weights with equal bytes stay two values. The text is what ``programs.lock.d`` keeps, so that
a refusal can show a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Argument, Graph, Node, OutputKind, Ref, TargetDevice, TensorSpec, references

FORMAT = "tensorfarm.canonical/2"
_PLACEMENT = {"device", "pin_memory"}


def canonical_text(graph: Graph, takes: str = "", returns: str = "") -> str:
    """One line a value, then effects and outputs. Lines refer to earlier lines as ``%number``.

    ``takes`` and ``returns`` say how inputs and outputs nest (``structure_text``); a bare graph has neither.
    """
    head = [FORMAT, f"takes {takes}"] if takes else [FORMAT]
    tail = [f"returns {returns}"] if returns else []
    return "\n".join([*head, *_Walk(graph).lines(), *tail]) + "\n"


def live_weights(graph: Graph) -> list[str]:
    """Names of the weights that the canonical text mentions, in its order, which no renaming changes."""
    walk = _Walk(graph)
    walk.lines()
    return [name for name in walk.numbers if name in graph.weights]


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers: dict[str, int] = {}
        self.text: list[str] = []

    def lines(self) -> list[str]:
        random = [node.name for node in self.graph.nodes.values() if draws(node)]
        for item in self.graph.inputs:
            self._number(item.name)
            content = _leaf(item.literal) if item.spec is None else _spec(item.spec) + _grad(item.requires_grad)
            self.text.append(f"input {content}")
        for name in random:
            self._visit(name)
        outputs = [self._output(output.kind, output.value, output.target) for output in self.graph.outputs]
        effects = [f"draws {' '.join(f'%{self.numbers[name]}' for name in random)}"] if random else []
        return [*(f"%{number} = {line}" for number, line in enumerate(self.text)), *effects, *outputs]

    def _output(self, kind: OutputKind, value: Argument, target: str) -> str:
        for name in references(value):
            self._visit(name)
        written = ""
        if kind is not OutputKind.USER:
            place = target if kind is OutputKind.MUTATES_INPUT else self._weight_called(target)
            self._visit(place)
            written = f" %{self.numbers[place]} <-"
        return f"{kind.value}{written} {self._argument(value)}"

    def _weight_called(self, target: str) -> str:
        return next(weight.name for weight in self.graph.weights.values() if weight.target == target)

    def _number(self, name: str) -> None:
        self.numbers[name] = len(self.numbers)

    def _visit(self, root: str) -> None:
        stack = [(root, False)]
        while stack:
            name, operands_done = stack.pop()
            if name in self.numbers:
                continue
            if name in self.graph.weights:
                weight = self.graph.weights[name]
                self._number(name)
                self.text.append(f"weight {_spec(weight.spec)}{_grad(weight.requires_grad)} sha256:{weight.sha256}")
            elif operands_done:
                self._number(name)
                self.text.append(self._call(self.graph.nodes[name]))
            else:
                operands = list(dict.fromkeys(self._operands_in_schema_order(self.graph.nodes[name])))
                stack.append((name, True))
                stack.extend((operand, False) for operand in reversed(operands))

    def _operands_in_schema_order(self, node: Node) -> list[str]:
        return [name for _, value in bound_arguments(node) for name in references(value)]

    def _call(self, node: Node) -> str:
        arguments = ", ".join(f"{key}={self._argument(value)}" for key, value in bound_arguments(node))
        results = ", ".join("none" if spec is None else _spec(spec) for spec in node.results)
        return f"{node.op}({arguments}) -> {f'({results})' if node.many else results}"

    def _argument(self, value: Argument) -> str:
        if isinstance(value, Ref):
            return f"%{self.numbers[value.name]}"
        if isinstance(value, tuple):
            return f"[{', '.join(self._argument(item) for item in value)}]"
        return _leaf(value)


def draws(node: Node) -> bool:
    """True where the call takes numbers from a generator, so that its order among others of its kind is meaning.

    Attention and dropout are random operators that draw nothing in a model that is not being trained.
    """
    if not ops.is_random(node.op):
        return False
    schema, given = ops.schema_of(node.op), dict(bound_arguments(node))
    formals = {formal.name: formal for formal in schema.arguments} if schema else {}
    if "dropout_p" in formals:
        return given.get("dropout_p", 0.0) != 0.0
    switch = next((name for name in ("train", "training") if name in formals), None)
    # Dropped by ``bound_arguments`` where it is the default, which is not to train.
    return switch is None or given.get(switch, False) is not False


def bound_arguments(node: Node) -> list[tuple[str, Argument]]:
    """A node's arguments by schema name, in schema order; defaults spelled out and placement are dropped."""
    schema = ops.schema_of(node.op)
    if schema is None:
        return [(str(position), value) for position, value in enumerate(node.args)]
    given = dict(node.kwargs)
    bound: list[tuple[str, Argument]] = []
    for position, formal in enumerate(schema.arguments):
        if position < len(node.args) and not formal.kwarg_only:
            value = node.args[position]
        elif formal.name in given:
            value = given[formal.name]
        else:
            continue
        if formal.name not in _PLACEMENT and not _is_default(formal, value):
            bound.append((formal.name, value))
    return bound


def _is_default(formal: torch.Argument, value: Argument) -> bool:
    if formal.name == "layout" and value is torch.strided:
        return True
    # By their text, not by ``==``: that holds -0.0 for 0.0 and True for 1.
    return formal.has_default_value() and _literal(formal.default_value) == _literal(value)


def _literal(value: object) -> str:
    """A constant argument's text; a value that is computed (a reference) has one that no default can have."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_literal(item) for item in cast('Sequence[object]', value))}]"
    return repr(value) if isinstance(value, Ref) else _leaf(cast("Argument", value))


def _spec(spec: TensorSpec) -> str:
    return f"{str(spec.dtype).removeprefix('torch.')}[{','.join(map(str, spec.shape))}]"


def _grad(requires_grad: bool) -> str:
    return " grad" if requires_grad else ""


def _leaf(value: Argument) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, complex):
        return f"complex:{value.real.hex()},{value.imag.hex()}"
    if isinstance(value, TargetDevice):
        return "device"
    if isinstance(value, str):
        return repr(value)
    return str(value).removeprefix("torch.")


def first_difference(approved: str, seen: str) -> str:
    """The first line at which two canonical texts part, in words."""
    left, right = approved.splitlines(), seen.splitlines()
    for number, (old, new) in enumerate(zip(left, right, strict=False), 1):
        if old != new:
            return f"line {number}: approved {old!r}, captured {new!r}"
    if len(left) == len(right):
        return "no difference"
    longer, which = (left, "approved") if len(left) > len(right) else (right, "captured")
    return f"line {min(len(left), len(right)) + 1}: only the {which} program has {longer[min(len(left), len(right))]!r}"
