"""Where values flow: which share memory with which, and which carry a gradient.

Both are read off the operators' schemas. Invariant: when in doubt a value shares memory and carries a gradient, so that
a pass that asks before it acts errs towards refusing.
"""

from __future__ import annotations

from functools import cache

from tensorfarm.contract import ops
from tensorfarm.contract.canonical import draws
from tensorfarm.contract.graph import Graph, Node, OutputKind, references

# Composite operators that may hand back their argument though their schema does not say so.
_MAY_RETURN_THEIR_ARGUMENT = frozenset(
    {"aten.dropout.default", "aten.alpha_dropout.default", "aten.feature_dropout.default", ops.GETITEM}
)

# Their values are whatever was in memory: not equal to themselves, and no constants.
UNINITIALISED = frozenset(
    f"aten.{name}"
    for name in (
        "empty.memory_format",
        "empty_like.default",
        "empty_permuted.default",
        "empty_strided.default",
        "new_empty.default",
        "new_empty_strided.default",
    )
)


def is_pure(node: Node) -> bool:
    """True where calling twice gives the same values: an assertion has effects, a draw moves the random stream."""
    return node.op not in ops.ASSERTIONS and not draws(node)


def roots(graph: Graph) -> dict[str, frozenset[str]]:
    """For each value the values whose memory it may lie in: itself, or what it is a view of."""
    found = {name: frozenset({name}) for name in (*(item.name for item in graph.inputs), *graph.weights)}
    for node in graph.nodes.values():
        viewed = _viewed(node)
        found[node.name] = frozenset().union(*(found[name] for name in viewed)) if viewed else frozenset({node.name})
    return found


def _viewed(node: Node) -> list[str]:
    if node.op in _MAY_RETURN_THEIR_ARGUMENT:
        return list(references(node.args[0]))
    arguments = (*node.args, *(value for _, value in node.kwargs))
    return [name for position in _shared_arguments(node.op) for name in references(arguments[position : position + 1])]


@cache
def _shared_arguments(op: str) -> tuple[int, ...]:
    schema = ops.schema_of(op)
    formals = () if schema is None else schema.arguments
    return tuple(position for position, formal in enumerate(formals) if formal.alias_info is not None)


def merging_is_seen(graph: Graph, old: str, new: str) -> str:
    """Why a caller could see that ``old`` now lies in ``new``'s memory; empty where nobody can."""
    if old in graph.output_names() and new not in graph.nodes:
        return "an output would be an input or a weight itself"
    lies_in = roots(graph)
    if lies_in[old] & lies_in[new]:
        return ""
    returned = [
        frozenset().union(*(lies_in[name] for name in references(output.value)))
        for output in graph.outputs
        if output.kind is OutputKind.USER
    ]
    others = [place for place in returned if not lies_in[old] & place]
    if len(others) == len(returned):
        return ""
    outside = {item.name for item in graph.inputs} | graph.weights.keys()
    if lies_in[new] & outside:
        return "an output would share memory with an input or a weight"
    if any(lies_in[new] & place for place in returned):
        return "two outputs would share memory"
    return ""


def carries_gradient(graph: Graph) -> set[str]:
    """Values through which a gradient may flow back to a trained weight or an input."""
    found = {item.name for item in graph.inputs if item.requires_grad}
    found |= {weight.name for weight in graph.weights.values() if weight.requires_grad}
    for node in graph.nodes.values():
        differentiable = any(
            spec is not None and (spec.dtype.is_floating_point or spec.dtype.is_complex) for spec in node.results
        )
        if differentiable and node.op != "aten.detach.default" and not found.isdisjoint(node.operands()):
            found.add(node.name)
    return found


def uses(graph: Graph) -> dict[str, int]:
    """How often each value is used, repetitions and outputs counted: how many terms its gradient is summed from."""
    counted: dict[str, int] = {}
    every = [name for node in graph.nodes.values() for name in node.operands()]
    every += [name for output in graph.outputs for name in references(output.value)]
    for name in every:
        counted[name] = counted.get(name, 0) + 1
    return counted
