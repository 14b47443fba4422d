"""Common subexpressions: one value computed twice is computed once.

Values stay bit for bit. A gradient may not: two terms that went through an operator one by one now go through as a sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import UNINITIALISED, carries_gradient, is_pure, merging_is_seen
from tensorfarm.contract.canonical import bound_arguments
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.graph import Graph, Node
from tensorfarm.contract.graph_json import encoded_argument
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class CommonSubexpressions:
    """Use the first of two equal pure nodes for both. Its origins are those of both."""

    name: ClassVar[str] = "cse"
    numerics: ClassVar[Numerics] = Numerics.REASSOCIATION

    def sites(self, graph: Graph) -> Iterator[Site]:
        first: dict[object, str] = {}
        differentiable = carries_gradient(graph)
        for node in graph.nodes.values():
            if not is_pure(node) or node.op in UNINITIALISED:
                continue
            kept = first.setdefault(_what_is_computed(node), node.name)
            if kept != node.name:
                numerics = Numerics.REASSOCIATION if node.name in differentiable else Numerics.EXACT
                yield Site((node.name, kept), merging_is_seen(graph, node.name, kept), numerics)

    def rewrite(self, graph: Graph, site: Site) -> None:
        duplicate, kept = site.nodes
        take_over(graph, duplicate, kept)


def _what_is_computed(node: Node) -> object:
    """Equal exactly where two nodes give the same bits with the same layout. As text: to Python 1 is 1.0 is True."""
    arguments = canonical_json([[key, encoded_argument(value)] for key, value in bound_arguments(node)])
    return node.op, arguments, node.results, node.many
