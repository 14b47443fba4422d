"""Snapshot: an fx graph at one moment, to tell afterwards whether a pass changed it, and where.

Invariant: equal graphs have equal hashes in every process; nothing spelled here holds an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from tensorfarm.contract.digest import sha256_json

_PLAIN = (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format, torch.device, type(None))


@dataclass(frozen=True)
class Snapshot:
    """``nodes`` is each node's spelling by name, ``traces`` where it came from; ``sha256`` is of their order too."""

    nodes: Mapping[str, Any]
    traces: Mapping[str, str]
    sha256: str

    @staticmethod
    def of(graph: torch.fx.Graph) -> Snapshot:
        rows = {node.name: _spelling(node) for node in graph.nodes}
        traces = {node.name: node.meta.get("stack_trace") or "" for node in graph.nodes}
        return Snapshot(rows, traces, sha256_json(list(rows.items())))

    def changed(self, after: Snapshot) -> dict[str, str]:
        """Names of nodes that came, went or changed, with their traces; a new order alone changes none."""
        names = dict.fromkeys((*self.nodes, *after.nodes))
        return {
            name: self.traces.get(name) or after.traces.get(name, "")
            for name in names
            if self.nodes.get(name) != after.nodes.get(name)
        }


def _spelling(node: torch.fx.Node) -> list[Any]:
    return [node.op, _target(node.target), _spelled(node.args), _spelled(node.kwargs)]


def _spelled(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return ["node", value.name]
    if value is None or type(value) in (bool, int, float, str):
        return f"{type(value).__name__} {value}"
    if isinstance(value, (tuple, list)):
        return [_spelled(item) for item in value]
    if isinstance(value, dict):
        return [[str(key), _spelled(item)] for key, item in value.items()]
    return f"{type(value).__name__} {value}" if isinstance(value, _PLAIN) else type(value).__name__


def _target(target: object) -> str:
    """An operator by its full name; never ``repr``, which may hold an address."""
    return str(target) if isinstance(target, (str, OpOverload)) else getattr(target, "__name__", "")
