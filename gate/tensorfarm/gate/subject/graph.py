"""Runner of the ``graph`` runtime: the artifact's graph, operator by operator, by plain eager torch."""

from __future__ import annotations

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.executable import executable
from tensorfarm.gate.subject.load import Loaded


def load(artifact: Artifact) -> Loaded:
    module = executable(artifact.graph, artifact.weights)
    return Loaded(artifact, module, module, lambda: {"runtime": "graph"})
