"""Loads an artifact's bytes into something that can be called. The gate and the bench load by this one function.

What was gated is what ships: the bytes are checked against the sha256 asked for, and nothing is compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.refusal import Refusal

# A runner's module is imported when an artifact asks for it: one that runs a graph need not pay for Inductor.
RUNNERS = {"graph": "tensorfarm.gate.subject.graph", "inductor": "tensorfarm.gate.subject.inductor"}


@dataclass(frozen=True)
class Loaded:
    """``call`` takes the graph's tensor inputs in order and returns its user outputs as a tuple.

    ``parameters`` and ``buffers`` are the live tensors by graph weight's name. ``evidence`` says, after a call, how the
    runtime came by its code.
    """

    artifact: Artifact
    call: Callable[..., Any]
    module: torch.nn.Module
    evidence: Callable[[], dict[str, Any]]

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        return dict(self.module.named_parameters())

    @property
    def buffers(self) -> dict[str, torch.Tensor]:
        """Buffers of the program; folded and other constants are not among them."""
        kinds = {name: weight.kind for name, weight in self.artifact.graph.weights.items()}
        return {name: value for name, value in self.module.named_buffers() if kinds[name] is WeightKind.BUFFER}


def load_artifact(path: Path, sha256: str, candidate_id: str) -> Loaded:
    """Load the artifact with these bytes. Refuses other bytes, another candidate's, and a runtime that is not known."""
    artifact = open_artifact(path, sha256)
    if artifact.candidate_id != candidate_id:
        raise Refusal(
            f"artifact {sha256[:12]} belongs to candidate {artifact.candidate_id[:12]}",
            limit=f"{candidate_id[:12]} was asked for",
            next_step="compile the candidate again",
        )
    if artifact.runtime not in RUNNERS:
        raise Refusal(
            f"artifact {sha256[:12]} wants the runtime {artifact.runtime!r}",
            limit=f"known here: {', '.join(RUNNERS)}",
            next_step="compile it with a backend of this version",
        )
    return importlib.import_module(RUNNERS[artifact.runtime]).load(artifact)
