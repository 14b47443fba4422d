"""Runner of a captured graph: capture is judged too, for functionalisation and conversion have faults of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph, OutputKind
from tensorfarm.contract.program import Program
from tensorfarm.gate.subject import specialised
from tensorfarm.gate.subject.load import Loaded


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> Loaded:
    """``subject``: ``path`` of a program and its ``sha256``, where one is asked for."""
    program = Program.load(Path(subject["path"]), subject.get("sha256"))
    return of_graph(program.graph, program.weights, program.returns, device)


def of_graph(graph: Graph, weights: Mapping[str, torch.Tensor], structure: str, device: str = "cpu") -> Loaded:
    """The graph by plain eager torch; its weights are copied, so that a write to a buffer stays in it."""
    module = executable(graph, {name: value.clone() for name, value in weights.items()}, device)
    writes = any(output.kind is not OutputKind.USER for output in graph.outputs)

    def fresh() -> Loaded:
        """The code is made once: what it writes to is new, and what earlier calls gave stays as it is."""
        for name, value in module.state_dict(keep_vars=True).items() if writes else ():
            value.data = weights[name].to(device, copy=True)
        return loaded

    loaded = Loaded(
        run=specialised.of_graph(graph, module, structure),
        evidence=lambda: {"runtime": "captured", "nodes": len(graph.nodes)},
        fresh=fresh,
        tensors=lambda: specialised.tensors_of_graph(graph, dict(module.state_dict(keep_vars=True))),
    )
    return loaded
