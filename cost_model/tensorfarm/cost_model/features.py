"""What a cost model knows a graph by: rows of work, operator by operator and as fused groups.

Read from a contract graph alone, so a prediction can be made before anything is compiled. Invariant: features depend on
the computation and not on names; equal features have equal hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.graph import Graph, Node
from tensorfarm.cost_model.backward import backward_of, trained
from tensorfarm.cost_model.fusion import fused_groups
from tensorfarm.cost_model.operators import Specs, bytes_of, one_by_one, work_of
from tensorfarm.cost_model.work import Rows, Work, counted

FORMAT = "tensorfarm.features/1"
Mode = Literal["inference", "training"]


class Checkpoint(StrEnum):
    """What features are of: the captured graph, or what was built of it."""

    CAPTURED = "captured"
    LOWERED = "lowered"


@dataclass(frozen=True)
class Features:
    """``ops`` is what runs operator by operator (eager, fx), ``groups`` what a fusing compiler makes of it (inductor).

    Both are for one step: forward, and in training mode its gradients. ``n_nodes`` counts nodes of the graph;
    ``footprint_bytes`` is what a step touches before it comes back to the same input or weight.
    """

    mode: Mode
    n_nodes: int
    footprint_bytes: int
    ops: Rows
    groups: Rows

    @property
    def hash(self) -> str:
        return sha256_json(self.as_json())

    @property
    def n_groups(self) -> int:
        """How many kernels there will be, by these rules."""
        return sum(count for _, count in self.groups)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "mode": self.mode,
            "n_nodes": self.n_nodes,
            "footprint_bytes": self.footprint_bytes,
            "ops": [[*work.as_json(), count] for work, count in self.ops],
            "groups": [[*work.as_json(), count] for work, count in self.groups],
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Features:
        """Raises KeyError or ValueError where ``value`` is of another format."""
        if value["format"] != FORMAT:
            raise ValueError(f"features of format {value['format']!r}, not {FORMAT}")
        return Features(
            value["mode"], value["n_nodes"], value["footprint_bytes"], _rows(value["ops"]), _rows(value["groups"])
        )


def describe(graph: Graph, mode: Mode) -> Features:
    """The features of one step of ``graph``."""
    specs = _specs(graph)
    works = {node.name: _own_work(node, graph, specs) for node in graph.nodes.values()}
    groups = fused_groups(graph, works, specs)
    ops = [one_by_one(graph.nodes[name], work) for name, work in works.items()]
    fused = [group.work for group in groups]
    if mode == "training":
        path = trained(graph)
        for node in graph.nodes.values():
            ops += backward_of([node], one_by_one(node, works[node.name]), path, specs)
        for group in groups:
            fused += backward_of([graph.nodes[name] for name in group.members], group.work, path, specs)
    footprint = _footprint(graph, works, specs, everything=mode == "training")
    return Features(mode, len(graph.nodes), footprint, counted(ops), counted(fused))


def _own_work(node: Node, graph: Graph, specs: Specs) -> Work:
    """One call's work, and how much of what it reads comes from outside of the step."""
    work = work_of(node, [spec for name in node.operands() for spec in specs[name]])
    outside = (spec for name in dict.fromkeys(node.operands()) if name not in graph.nodes for spec in specs[name])
    return replace(work, cold_bytes=min(sum(map(bytes_of, outside)), work.bytes_read))


def _footprint(graph: Graph, works: Mapping[str, Work], specs: Specs, *, everything: bool) -> int:
    """Inputs, weights, and of what is computed the largest, whose memory the others reuse; or ``everything``, kept."""
    used = {name for node in graph.nodes.values() for name in node.operands() if name not in graph.nodes}
    outside = sum(bytes_of(spec) for name in used for spec in specs[name])
    written = [work.bytes_written for work in works.values()]
    return outside + (sum(written) if everything else max(written, default=0))


def features_of_program(graph: Graph, mode: Mode) -> dict[str, Any]:
    """``{"captured": …}``: what the event ``ProgramCaptured`` holds."""
    return {"captured": describe(graph, mode).as_json()}


def features_of_lowered(graph: Graph, mode: Mode, kernels: int) -> dict[str, Any]:
    """``{"lowered": …, "kernels": …}``: what ``CandidateCompiled`` holds, by its artifact's graph and manifest.

    ``kernels`` counts the manifest's entries of kind kernel; 0 where the backend generates none.
    """
    return {"lowered": describe(graph, mode).as_json(), "kernels": kernels}


def _rows(value: Sequence[Any]) -> Rows:
    return tuple((Work.from_json(row[:-1]), int(row[-1])) for row in value)


def _specs(graph: Graph) -> Specs:
    found = {item.name: () if item.spec is None else (item.spec,) for item in graph.inputs}
    found |= {weight.name: (weight.spec,) for weight in graph.weights.values()}
    found |= {node.name: tuple(spec for spec in node.results if spec is not None) for node in graph.nodes.values()}
    return found
