"""The canonical graph: what compilers rewrite, judges read and artifacts carry.

A functional list of operator calls over named values. Invariant (``validate``): every name is unique, every reference
is to something defined earlier, every operator and argument is known, no node writes to its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

import torch

from tensorfarm.contract import ops
from tensorfarm.contract.refusal import Refusal


class IllegalGraph(Refusal):
    """The graph breaks the IR's own rules. Ends a candidate as ``structural_rejection``."""

    def __init__(self, fact: str, *, limit: str = "", next_step: str = "") -> None:
        super().__init__(fact, limit=limit, next_step=next_step, exit_code=10)


@dataclass(frozen=True, slots=True)
class Ref:
    """Use of a value: the name of an input, a weight or a node."""

    name: str


@dataclass(frozen=True, slots=True)
class TargetDevice:
    """Stands for whatever device the target has; a capture's device is placement, not meaning."""


# A leaf or a (nested) tuple of leaves. Lists are stored as tuples: operators do not tell them apart.
Leaf: TypeAlias = bool | int | float | complex | str | torch.dtype | torch.layout | torch.memory_format | None
Argument: TypeAlias = "Leaf | Ref | TargetDevice | tuple[Argument, ...]"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor before it is there. Sizes and strides count elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorSpec:
        return TensorSpec(tensor.dtype, tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride())))


class WeightKind(StrEnum):
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Input:
    """One flattened user input. A non-tensor input is specialised: ``spec`` is None and ``literal`` its value."""

    name: str
    spec: TensorSpec | None
    literal: Argument = None
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that belongs to the program. ``target`` is its qualified name in the module, ``sha256`` of its bytes."""

    name: str
    kind: WeightKind
    target: str
    spec: TensorSpec
    sha256: str
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One operator call. ``results`` describes its value(s); ``many`` tells a tuple of one from a tensor.

    ``origins`` names the nodes of the *captured* graph that this one stands for; at capture a node is its own origin.
    ``source`` is the user's line (``file.py:12``), for people only.
    """

    name: str
    op: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...] = ()
    results: tuple[TensorSpec | None, ...] = ()
    many: bool = False
    origins: tuple[str, ...] = ()
    source: str = ""

    def operands(self) -> Iterator[str]:
        """Names used, in argument order, with repetitions."""
        for argument in (*self.args, *(value for _, value in self.kwargs)):
            yield from references(argument)


class OutputKind(StrEnum):
    USER = "user"
    MUTATES_INPUT = "mutates_input"
    MUTATES_BUFFER = "mutates_buffer"


@dataclass(frozen=True, slots=True)
class Output:
    """A value that leaves the program: returned, or written back to the input or buffer called ``target``."""

    kind: OutputKind
    value: Argument
    target: str = ""


def references(argument: Argument) -> Iterator[str]:
    """Names that an argument refers to, left to right, with repetitions."""
    if isinstance(argument, Ref):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from references(item)


def substituted(argument: Argument, swap: Callable[[str], Argument]) -> Argument:
    """``argument`` with every reference replaced by what ``swap`` gives for its name."""
    if isinstance(argument, Ref):
        return swap(argument.name)
    if isinstance(argument, tuple):
        return tuple(substituted(item, swap) for item in argument)
    return argument


@dataclass
class Graph:
    """A program's computation. Mutable: passes rewrite it in place and ``validate`` says whether it is still legal."""

    inputs: tuple[Input, ...]
    weights: dict[str, Weight]
    nodes: dict[str, Node] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()

    def copy(self) -> Graph:
        return Graph(self.inputs, dict(self.weights), dict(self.nodes), self.outputs)

    def users(self) -> dict[str, list[str]]:
        """For each value the nodes that use it, once each, in graph order. Outputs are not listed."""
        found: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys(node.operands()):
                found.setdefault(name, []).append(node.name)
        return found

    def output_names(self) -> set[str]:
        return {name for output in self.outputs for name in references(output.value)}

    def spec_of(self, name: str) -> TensorSpec | None:
        """Metadata of a single-valued name; None for a literal input or a node with many results."""
        if name in self.nodes:
            node = self.nodes[name]
            return None if node.many or len(node.results) != 1 else node.results[0]
        if name in self.weights:
            return self.weights[name].spec
        return next(item.spec for item in self.inputs if item.name == name)

    def replace_uses(self, old: str, new: str) -> None:
        """Make every user of ``old``, outputs included, use ``new``."""

        def swap(name: str) -> Argument:
            return Ref(new if name == old else name)

        for node in list(self.nodes.values()):
            if old in node.operands():
                self.nodes[node.name] = rewired(node, swap)
        self.outputs = tuple(replace(output, value=substituted(output.value, swap)) for output in self.outputs)

    def erase(self, name: str) -> None:
        """Remove a node that nobody uses. Raises IllegalGraph where somebody does."""
        if name in self.output_names() or any(name in node.operands() for node in self.nodes.values()):
            raise IllegalGraph(f"node {name} is still used and cannot be erased")
        del self.nodes[name]

    def insert(self, node: Node, *, before: str | None = None) -> None:
        """Add ``node`` before another one, or at the end."""
        if node.name in self.nodes:
            raise IllegalGraph(f"two nodes are called {node.name}")
        if before is None:
            self.nodes[node.name] = node
            return
        placed: dict[str, Node] = {}
        for name, existing in self.nodes.items():
            if name == before:
                placed[node.name] = node
            placed[name] = existing
        self.nodes = placed

    def validate(self) -> None:
        """Raise IllegalGraph at the first rule broken."""
        known: set[str] = set()
        named = [(item.name, item.name) for item in self.inputs] + [
            (key, item.name) for key, item in self.weights.items()
        ]
        for key, name in named:
            if key != name or key in known:
                raise IllegalGraph(f"two values are called {name}")
            known.add(key)
        for key, node in self.nodes.items():
            if key != node.name or key in known:
                raise IllegalGraph(f"two values are called {node.name}")
            for operand in node.operands():
                if operand not in known:
                    raise IllegalGraph(f"node {key} ({node.op}) uses {operand} before it is defined")
            _refuse_call(node)
            known.add(key)
        self._refuse_outputs(known)

    def _refuse_outputs(self, known: set[str]) -> None:
        targets = {
            OutputKind.USER: {""},
            OutputKind.MUTATES_INPUT: {item.name for item in self.inputs if item.spec},
            OutputKind.MUTATES_BUFFER: {weight.target for weight in self.weights.values()},
        }
        for position, output in enumerate(self.outputs):
            for operand in references(output.value):
                if operand not in known:
                    raise IllegalGraph(f"output {position} is {operand}, which is not defined")
            if output.target not in targets[output.kind]:
                raise IllegalGraph(f"output {position} {output.kind.value} {output.target!r}, which is not there")


def _refuse_call(node: Node) -> None:
    """Raise IllegalGraph where the operator is unknown, writes, or does not take these arguments."""
    try:
        schema = ops.schema_of(node.op)
    except Refusal as error:
        raise IllegalGraph(f"node {node.name}: {error.fact}", next_step=error.next_step) from None
    if schema is None:
        return
    if schema.is_mutable:
        line = node.source or "unknown line"
        raise IllegalGraph(f"node {node.name} ({node.op}) at {line} writes to its arguments")
    by_position = [formal.name for formal in schema.arguments if not formal.kwarg_only][: len(node.args)]
    by_name = [key for key, _ in node.kwargs]
    strangers = set(by_name) - {formal.name for formal in schema.arguments}
    if len(by_position) < len(node.args) or strangers or len({*by_position, *by_name}) < len(by_position + by_name):
        given = f"{len(node.args)} by position, by name {', '.join(by_name) or 'none'}"
        raise IllegalGraph(
            f"node {node.name} ({node.op}) has arguments that it does not take: {given}", limit=str(schema)
        )


def rewired(node: Node, swap: Callable[[str], Argument]) -> Node:
    """``node`` with its operands replaced."""
    args = tuple(substituted(item, swap) for item in node.args)
    return replace(node, args=args, kwargs=tuple((key, substituted(item, swap)) for key, item in node.kwargs))
