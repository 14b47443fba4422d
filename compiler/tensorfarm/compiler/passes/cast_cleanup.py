"""Casts and copies that change nothing: ``clone`` and ``alias``, a cast to the dtype at hand, a cast there and back.

Sound because a graph never writes to a value; refused where the layout changes, where the way back is not exact, or
where a caller could tell from shared memory that the copy is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import carries_gradient, merging_is_seen, uses
from tensorfarm.contract.graph import Graph, Node, Ref
from tensorfarm.contract.manifest import Numerics

_COPIES = frozenset({"aten.clone.default", "aten.alias.default", "aten._to_copy.default"})
_CAST = "aten._to_copy.default"


@dataclass(frozen=True)
class DropNoopCasts:
    """Use the operand instead of its copy, or the first operand of a cast there and back."""

    name: ClassVar[str] = "drop-noop-casts"
    numerics: ClassVar[Numerics] = Numerics.REASSOCIATION

    def sites(self, graph: Graph) -> Iterator[Site]:
        differentiable, used = carries_gradient(graph), uses(graph)
        for node in graph.nodes.values():
            chain = _noop_chain(graph, node)
            if chain is None:
                continue
            kept = chain[-1]
            # A sum of up to two terms has one order; more may be summed in another once they meet at the operand.
            terms = used.get(kept, 0) - 1 + used.get(node.name, 0)
            exact = node.name not in differentiable or used.get(kept) == 1 or terms <= 2
            numerics = Numerics.EXACT if exact else Numerics.REASSOCIATION
            yield Site(chain, _reason(graph, chain), numerics)

    def rewrite(self, graph: Graph, site: Site) -> None:
        dropped, *between, kept = site.nodes
        take_over(graph, dropped, kept, between)


def _noop_chain(graph: Graph, node: Node) -> tuple[str, ...] | None:
    """``(copy, operand)`` or ``(cast back, cast, operand)`` where the dtypes at the ends agree."""
    if node.op not in _COPIES or not isinstance(node.args[0], Ref):
        return None
    operand, spec = node.args[0].name, graph.spec_of(node.name)
    before = graph.spec_of(operand)
    if spec is None or before is None:
        return None
    if spec.dtype == before.dtype:
        return node.name, operand
    inner = graph.nodes.get(operand)
    if inner is None or node.op != _CAST or inner.op != _CAST or not isinstance(inner.args[0], Ref):
        return None
    start = graph.spec_of(inner.args[0].name)
    return (node.name, operand, inner.args[0].name) if start is not None and start.dtype == spec.dtype else None


def _reason(graph: Graph, chain: tuple[str, ...]) -> str:
    dropped, kept = graph.spec_of(chain[0]), graph.spec_of(chain[-1])
    assert dropped is not None
    assert kept is not None
    if len(chain) == 3:
        between = graph.spec_of(chain[1])
        assert between is not None
        if not _holds_exactly(between.dtype, kept.dtype):
            return f"{kept.dtype} does not survive {between.dtype}"
    if dropped.stride != kept.stride:
        return f"it changes the layout from {kept.stride} to {dropped.stride}"
    return merging_is_seen(graph, chain[0], chain[-1])


def _holds_exactly(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether every value of ``narrow`` is one of ``wide``: floats by precision and range, signed integers by size."""
    if wide.is_floating_point and narrow.is_floating_point:
        outer, inner = torch.finfo(wide), torch.finfo(narrow)
        return outer.eps <= inner.eps and outer.max >= inner.max and outer.smallest_normal <= inner.smallest_normal
    signed = {torch.int8, torch.int16, torch.int32, torch.int64}
    return wide in signed and narrow in signed and wide.itemsize >= narrow.itemsize
