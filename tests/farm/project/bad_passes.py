"""Passes that go wrong in every way a compiler can: they crash, hang, eat memory, lie about what they did."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph, Node, Ref
from tensorfarm.contract.manifest import Numerics


@dataclass(frozen=True)
class _Once:
    """Acts once, at the first node that multiplies by a scalar."""

    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        yield from [Site((node.name,)) for node in graph.nodes.values() if node.op == "aten.mul.Tensor"][:1]


@dataclass(frozen=True)
class Segfaults(_Once):
    name: ClassVar[str] = "segfaults"

    def rewrite(self, graph: Graph, site: Site) -> None:
        ctypes.string_at(0)


@dataclass(frozen=True)
class Aborts(_Once):
    name: ClassVar[str] = "aborts"

    def rewrite(self, graph: Graph, site: Site) -> None:
        os.abort()


@dataclass(frozen=True)
class Exits(_Once):
    name: ClassVar[str] = "exits"

    def rewrite(self, graph: Graph, site: Site) -> None:
        os._exit(0)


@dataclass(frozen=True)
class Hangs(_Once):
    name: ClassVar[str] = "hangs"

    def rewrite(self, graph: Graph, site: Site) -> None:
        time.sleep(600)


@dataclass(frozen=True)
class EatsMemory(_Once):
    name: ClassVar[str] = "eats-memory"

    def rewrite(self, graph: Graph, site: Site) -> None:
        hoard = [bytearray(64 << 20) for _ in range(1000)]
        raise AssertionError(len(hoard))


@dataclass(frozen=True)
class Raises(_Once):
    name: ClassVar[str] = "raises"

    def rewrite(self, graph: Graph, site: Site) -> None:
        raise ValueError("no idea")


@dataclass(frozen=True)
class WrongValue(_Once):
    """A plausible lie: the product goes, and what it scaled claims to stand for it."""

    name: ClassVar[str] = "wrong-value"

    def rewrite(self, graph: Graph, site: Site) -> None:
        product = graph.nodes[site.nodes[0]]
        x = product.args[0]
        assert isinstance(x, Ref)
        take_over(graph, product.name, x.name)


@dataclass(frozen=True)
class InventsANode(_Once):
    name: ClassVar[str] = "invents-a-node"

    def rewrite(self, graph: Graph, site: Site) -> None:
        node = graph.nodes[site.nodes[0]]
        made = Node("invented", "aten.neg.default", (Ref(node.name),), (), node.results)
        for user in graph.users()[node.name]:
            taken = graph.nodes[user]
            args = tuple(Ref("invented") if arg == Ref(node.name) else arg for arg in taken.args)
            graph.nodes[user] = replace(taken, args=args)
        graph.insert(made, before=graph.users()["invented"][0])


@dataclass(frozen=True)
class DropsAnOutput(_Once):
    name: ClassVar[str] = "drops-an-output"

    def rewrite(self, graph: Graph, site: Site) -> None:
        graph.outputs = ()


@dataclass(frozen=True)
class EditsAWeight(_Once):
    name: ClassVar[str] = "edits-a-weight"

    def rewrite(self, graph: Graph, site: Site) -> None:
        weight = next(iter(graph.weights.values()))
        graph.weights[weight.name] = replace(weight, sha256="0" * 64)


@dataclass(frozen=True)
class BreaksTheGraph(_Once):
    name: ClassVar[str] = "breaks-the-graph"

    def rewrite(self, graph: Graph, site: Site) -> None:
        node = graph.nodes[site.nodes[0]]
        graph.nodes[node.name] = replace(node, args=(Ref("nobody"), 0.5))
