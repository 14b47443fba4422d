"""What a pass is: a name, what it may do to values, where it could act, and how it acts there.

Invariant: ``sites`` only reads, ``rewrite`` changes one site, and whatever stands in for a value takes over the origins
of what it replaces (``take_over``): the judge refuses an artifact whose nodes stand for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.manifest import Numerics


class Pass(Protocol):
    """A frozen dataclass whose fields are its options. ``numerics`` is the worst that any of its sites may do."""

    name: ClassVar[str]
    numerics: ClassVar[Numerics]

    def sites(self, graph: Graph) -> Iterator[Site]:
        """Every place where this pass applies, in graph order, and those it refuses, with the reason."""
        ...

    def rewrite(self, graph: Graph, site: Site) -> None:
        """Apply the pass at one site that it found in this very graph."""
        ...


def take_over(graph: Graph, old: str, new: str, replaced: Sequence[str] = ()) -> None:
    """Let ``new`` be used instead of ``old`` everywhere, and stand for whatever ``old`` and ``replaced`` stood for.

    ``old`` is erased, unless it is an input or a weight; what else became dead is left for ``dce``.
    """
    if new in graph.nodes:
        stand_in = graph.nodes[new]
        gained = (origin for name in (*replaced, old) if name in graph.nodes for origin in graph.nodes[name].origins)
        graph.nodes[new] = replace(stand_in, origins=tuple(dict.fromkeys((*stand_in.origins, *gained))))
    graph.replace_uses(old, new)
    if old in graph.nodes:
        graph.erase(old)
