"""Dead code: a value that nobody uses. Random draws stay, used or not: later draws would move in the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import is_pure
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class DeadCode:
    """Erase a pure node without users. What it kept alive is found next."""

    name: ClassVar[str] = "dce"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        used = graph.users().keys() | graph.output_names()
        for node in reversed(graph.nodes.values()):
            if node.name in used:
                continue
            reason = "" if is_pure(node) else "it draws random numbers: later draws would change"
            yield Site((node.name,), reason)

    def rewrite(self, graph: Graph, site: Site) -> None:
        graph.erase(site.nodes[0])
