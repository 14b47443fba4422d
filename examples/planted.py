"""Deliberately wrong passes: the farm must refuse what they make, name the element and find the very site."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import carries_gradient
from tensorfarm.contract.graph import Graph, Node, Ref
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class WrongScale:
    """For configs/planted.yaml: drops every multiplication by a scalar and says that nothing changed.

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


@dataclass(frozen=True)
class OneWrongSite:
    """Copies every value on its way to its users, which changes nothing, but negates the one at site ``nth``.

    gpt2 of the zoo has 63 such sites.
    """

    nth: int = 0
    name: ClassVar[str] = "one-wrong-site"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        differentiable, users = carries_gradient(graph), graph.users()
        for node in graph.nodes.values():
            followed = users.get(node.name, [])
            if (
                node.name in node.origins
                and node.name in differentiable
                and followed
                and _copy(node.name) not in followed
            ):
                spec = graph.spec_of(node.name)
                if spec is not None and _is_contiguous(spec.shape, spec.stride):
                    yield Site((node.name, followed[0]))

    def rewrite(self, graph: Graph, site: Site) -> None:
        node, user = (graph.nodes[name] for name in site.nodes)
        graph.replace_uses(node.name, _copy(node.name))
        op = "aten.neg.default" if site.index == self.nth else "aten.clone.default"
        # A copy stands for the value and its user together, so that its operator need not be that of either.
        origins = tuple(dict.fromkeys((*node.origins, *user.origins)))
        made = Node(_copy(node.name), op, (Ref(node.name),), results=node.results, origins=origins)
        graph.insert(made, before=user.name)


def _copy(name: str) -> str:
    return f"{name}_copy"


def _is_contiguous(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
