"""A pass of your own: ``pipeline: fx:dce,my_passes:DropDoubleNegation``, with this folder under ``python_path``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import merging_is_seen
from tensorfarm.contract.graph import Graph, Ref
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class DropDoubleNegation:
    """Use ``x`` instead of ``-(-x)``."""

    name: ClassVar[str] = "drop-double-negation"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        negations = {node.name: node.args[0] for node in graph.nodes.values() if node.op == "aten.neg.default"}
        for outer, inner in negations.items():
            if isinstance(inner, Ref) and isinstance(x := negations.get(inner.name), Ref):
                yield Site((outer, inner.name, x.name), merging_is_seen(graph, outer, x.name))

    def rewrite(self, graph: Graph, site: Site) -> None:
        outer, inner, x = site.nodes
        take_over(graph, outer, x, [inner])
