"""Site: one place where a pass can be applied, and what a bisection switches on and off.

Invariant: ``place`` depends on what stands there (operators, constants, the operands' structure), never on names, so
the same program gives the same places in every process and after every capture.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.graph import Argument, Graph, Ref
from tensorfarm.contract.graph_json import encoded_argument
from tensorfarm.contract.manifest import Numerics

DEPTH = 3


@dataclass(frozen=True)
class Site:
    """``nodes`` are touched, the one that goes or changes first. With a ``reason`` the site is refused and stays.

    A pass fills these three; the sequence numbers what it found: ``index`` within the pass, ``place`` its stable hash.
    """

    nodes: tuple[str, ...]
    reason: str = ""
    numerics: Numerics = Numerics.EXACT
    pass_name: str = ""
    index: int = -1
    place: str = ""


def structure(graph: Graph, name: str, depth: int = DEPTH) -> object:
    """What computes ``name``, down to ``depth`` operands, as JSON values without a single name."""
    if name in graph.weights:
        weight = graph.weights[name]
        return ["weight", weight.kind.value, str(weight.spec.dtype), list(weight.spec.shape)]
    if name not in graph.nodes:
        return ["input", next(number for number, item in enumerate(graph.inputs) if item.name == name)]
    node = graph.nodes[name]
    if depth == 0:
        return [node.op]

    def spelled(argument: Argument) -> object:
        if isinstance(argument, Ref):
            return structure(graph, argument.name, depth - 1)
        if isinstance(argument, tuple):
            return [spelled(item) for item in argument]
        return {"leaf": encoded_argument(argument)}

    return [node.op, [spelled(item) for item in node.args], {key: spelled(item) for key, item in node.kwargs}]


def place_hash(graph: Graph, name: str, occurrence: int) -> str:
    """Stable hash of the place at ``name``; ``occurrence`` tells equal structures apart, in the order of finding."""
    return sha256_json([structure(graph, name), occurrence])[:16]
