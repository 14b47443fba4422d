"""Runner of the ``graph`` runtime: the artifact's graph, operator by operator, by plain eager torch."""

from __future__ import annotations

from tensorfarm.contract.artifact import Artifact
from tensorfarm.gate.subject import load
from tensorfarm.gate.subject.by_operator import ByOperator
from tensorfarm.gate.subject.specialised import of_graph, tensors_of_graph


def load_artifact(artifact: Artifact, device: str) -> load.Loaded:
    call = ByOperator(artifact.graph, artifact.weights, device)
    return load.Loaded(
        run=of_graph(artifact.graph, call),
        evidence=lambda: {"runtime": "graph"},
        fresh=lambda: load.load_artifact(artifact.path, artifact.sha256, artifact.candidate_id, device),
        tensors=lambda: tensors_of_graph(artifact.graph, call.places),
    )
