"""Runner of a captured graph: capture is judged too, for functionalisation and conversion have faults of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.program import Program
from tensorfarm.gate.subject import specialised
from tensorfarm.gate.subject.by_operator import ByOperator
from tensorfarm.gate.subject.load import Loaded


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> Loaded:
    """``subject``: ``path`` of a program and its ``sha256``, where one is asked for.

    A weight that were another one than the graph says shows in what is computed with it.
    """
    program = Program.load(Path(subject["path"]), subject.get("sha256"), proves_weights=False)
    return of_graph(program.graph, program.weights, program.returns, device)


def of_graph(graph: Graph, weights: Mapping[str, torch.Tensor], structure: str, device: str = "cpu") -> Loaded:
    """The graph by plain eager torch. What it writes to is copied, so that ``weights`` stay as they are."""
    call = ByOperator(graph, weights, device)
    first = {name: call.places[name].detach() for name in call.written_weights}

    def fresh() -> Loaded:
        """What it writes to is new, and what earlier calls gave stays as it is."""
        for name, value in first.items():
            call.places[name].data = value.clone()
        return loaded

    loaded = Loaded(
        run=specialised.of_graph(graph, call, structure),
        evidence=lambda: {"runtime": "captured", "nodes": len(graph.nodes)},
        fresh=fresh,
        tensors=lambda: specialised.tensors_of_graph(graph, call.places),
    )
    return fresh()
