"""A deliberately wrong pass, for configs/planted.yaml: the farm must find it, name the element and exit with 13."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph, Ref
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class WrongScale:
    """Drops every multiplication by a scalar and says that nothing changed.

    Provenance stays plausible: whoever only compares structure has nothing to object to.
    """

    name: ClassVar[str] = "wrong-scale"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        for node in graph.nodes.values():
            if node.op != "aten.mul.Tensor" or not isinstance(node.args[0], Ref):
                continue
            scale, x = node.args[1], node.args[0].name
            if isinstance(scale, float) and scale != 1.0 and graph.spec_of(x) == graph.spec_of(node.name):
                yield Site((node.name, x))

    def rewrite(self, graph: Graph, site: Site) -> None:
        product, x = site.nodes
        take_over(graph, product, x)
