"""A pass that is right and slow: for showing how a slow-down is found, confirmed, fixed and forgotten.

``fx:dce,slow_pass:ComputeAgain`` does nothing as it stands. Set ``TIMES`` to 2 (or write ``{times=2}``) and every
product of matrices is computed twice more: steps of the zoo's models take about twice as long. Put it last: ``cse``
after it would take its work away.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph, Node, Ref
from tensorfarm.contract.manifest import Numerics

TIMES = 0
PRODUCTS = frozenset(
    f"aten.{name}.default" for name in ("addmm", "bmm", "conv2d", "convolution", "linear", "matmul", "mm")
)


@dataclass(frozen=True)
class ComputeAgain:
    """``maximum(x, x again)`` instead of ``x``: equal to the bit. Each of two equals gets half of the gradient."""

    times: int = TIMES
    name: ClassVar[str] = "compute-again"
    numerics: ClassVar[Numerics] = Numerics.ROUNDING

    def sites(self, graph: Graph) -> Iterator[Site]:
        for node in graph.nodes.values():
            done = _called(node.name, 0) in graph.nodes
            if self.times and node.op in PRODUCTS and node.name in node.origins and not done:
                beside = next((name for name in node.operands() if name in graph.nodes), None)
                if beside is not None:
                    yield Site((node.name, beside), numerics=Numerics.ROUNDING)

    def rewrite(self, graph: Graph, site: Site) -> None:
        node, beside = (graph.nodes[name] for name in site.nodes)
        first_user = next(iter(graph.users().get(node.name, [])), None)
        graph.replace_uses(node.name, f"{_called(node.name, self.times - 1)}_kept")
        kept = node.name
        # A maximum is no product: it has to stand for a connected region of the program, not for one product.
        origins = tuple(dict.fromkeys((*node.origins, *beside.origins)))
        for number in range(self.times):
            again = replace(node, name=_called(node.name, number))
            operands = (Ref(kept), Ref(again.name))
            kept = f"{again.name}_kept"
            graph.insert(again, before=first_user)
            graph.insert(
                Node(kept, "aten.maximum.default", operands, results=node.results, origins=origins), before=first_user
            )


def _called(name: str, number: int) -> str:
    return f"{name}_again{number}"
