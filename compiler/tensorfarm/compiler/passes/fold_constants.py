"""Constant folding: a value that depends on nothing but literals is computed now and travels as a weight.

Only what every CPU computes to the same bits is folded, because the judge computes it again and wants them. Parameters
and buffers are never constants: one is trained, the other may be written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch

from tensorfarm.compiler.site import Site
from tensorfarm.compiler.value_flow import UNINITIALISED, is_pure, roots
from tensorfarm.contract import ops
from tensorfarm.contract.graph import (
    Argument,
    Graph,
    Node,
    OutputKind,
    Ref,
    TargetDevice,
    TensorSpec,
    Weight,
    WeightKind,
    references,
)
from tensorfarm.contract.manifest import Numerics
from tensorfarm.contract.tensors import tensor_sha256

# Operators that move values, or round a floating result correctly: the same bits on every machine.
_SAME_BITS_EVERYWHERE = re.compile(
    r"getitem|aten\.(_to_copy|abs|add|cat|clamp|clone|div|eq|expand|full|full_like|ge|gt|index|le|lt|masked_fill|maximum"
    r"|min|minimum|mul|ne|neg|new_full|new_ones|new_zeros|ones|ones_like|permute|reshape|scalar_tensor|select|slice"
    r"|split|sqrt|squeeze|stack|sub|transpose|tril|triu|unsqueeze|where|zeros|zeros_like)\.\w+"
)


@dataclass(frozen=True)
class FoldConstants:
    """Fold a value of at most ``limit`` elements. Of a chain only the end is folded; ``dce`` removes the rest."""

    limit: int = 1024
    name: ClassVar[str] = "fold-constants"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        constant = _constants(graph)
        lies_in = roots(graph)
        returned = frozenset[str]().union(
            *(
                lies_in[name]
                for item in graph.outputs
                if item.kind is OutputKind.USER
                for name in references(item.value)
            )
        )
        reasons = {
            name: self._reason(graph, name, stored, bool(lies_in[name] & returned)) for name, stored in constant.items()
        }
        users, kept = graph.users(), graph.output_names()
        # Ends first: once its beginning is stored, the rest of a chain has nothing to be computed from.
        for name in reversed(constant):
            folded_into = [user for user in users.get(name, []) if reasons.get(user) == ""]
            wanted = name in kept or len(folded_into) < len(users.get(name, []))
            if wanted and not graph.nodes[name].many:
                yield Site((name,), reasons[name])

    def rewrite(self, graph: Graph, site: Site) -> None:
        (name,) = site.nodes
        value = evaluated(graph, name)
        del graph.nodes[name]
        spec, sha256 = TensorSpec.of(value), tensor_sha256(value)
        graph.weights[name] = Weight(name, WeightKind.CONSTANT, name, spec, sha256)

    def _reason(self, graph: Graph, name: str, stored: bool, shared: bool) -> str:
        node, spec = graph.nodes[name], graph.spec_of(name)
        if spec is None:
            return "it has several results"
        if prod(spec.shape) > self.limit:
            return f"it has {prod(spec.shape)} elements (limit {self.limit})"
        if stored:
            return "it depends on a stored constant, whose value no pass sees"
        if name not in node.origins:
            return "it is no value of the captured program, so nobody could compute it again"
        if shared:
            return "an output would share memory with the constant"
        return ""


def _constants(graph: Graph) -> dict[str, bool]:
    """Nodes that depend on literals and stored constants alone, in graph order, and whether on a stored one."""
    known = {weight.name: True for weight in graph.weights.values() if weight.kind is WeightKind.CONSTANT}
    found: dict[str, bool] = {}
    for node in graph.nodes.values():
        operands = list(node.operands())
        if all(name in known for name in operands) and _same_bits_everywhere(graph, node):
            known[node.name] = found[node.name] = any(known[name] for name in operands)
    return found


def _same_bits_everywhere(graph: Graph, node: Node) -> bool:
    if not is_pure(node) or node.op in UNINITIALISED:
        return False
    specs = [*node.results, *(graph.spec_of(name) for name in node.operands())]
    inexact = any(spec is not None and (spec.dtype.is_floating_point or spec.dtype.is_complex) for spec in specs)
    # x + alpha·y is one rounding or two, depending on the machine.
    scaled = any(key == "alpha" for key, _ in node.kwargs)
    return not inexact or (not scaled and _SAME_BITS_EVERYWHERE.fullmatch(node.op) is not None)


def evaluated(graph: Graph, name: str) -> torch.Tensor:
    """The value of a node that depends on literals alone, computed on the CPU."""
    needed, stack = set[str](), [name]
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack.extend(graph.nodes[at].operands())
    values: dict[str, Any] = {}

    def argument(value: Argument) -> Any:
        if isinstance(value, Ref):
            return values[value.name]
        if isinstance(value, tuple):
            return [argument(item) for item in value]
        return torch.device("cpu") if isinstance(value, TargetDevice) else value

    with torch.no_grad():
        for node in (node for node in graph.nodes.values() if node.name in needed):
            named = {key: argument(item) for key, item in node.kwargs}
            values[node.name] = ops.resolve(node.op)(*(argument(item) for item in node.args), **named)
    return values[name]
