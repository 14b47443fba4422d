"""Loads what is judged into something that can be called by its leaves. The gate and the bench load by this one module.

What was gated is what ships: an artifact's bytes are checked against the sha256 asked for, and nothing of it is
compiled. Invariant: whatever is loaded is fresh; two that were loaded share no tensor.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.artifact import open_artifact
from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.structure import structure_text
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.packed import call_packed

# A runner's module is imported when a subject asks for it: one that runs a graph need not pay for Inductor.
_RUNNERS = "tensorfarm.gate.subject"
KINDS = {
    "aoti": f"{_RUNNERS}.aoti",
    "callable": f"{_RUNNERS}.callable",
    "captured": f"{_RUNNERS}.captured",
    "compiled": f"{_RUNNERS}.compiled",
    "exported": f"{_RUNNERS}.exported",
    "mutant": "tensorfarm.gate.faults.subject",
    "onnx": f"{_RUNNERS}.onnxruntime",
    "triton": f"{_RUNNERS}.triton",
}
RUNTIMES = {name: f"{_RUNNERS}.{name}" for name in ("aoti", "graph", "inductor", "onnxruntime", "triton")}

# Under which ``torch.compile`` of a module keeps that module.
_COMPILED_PREFIX = "_orig_mod."
Prepare = Callable[[torch.nn.Module], torch.nn.Module]


@dataclass(frozen=True)
class Tensors:
    """Live tensors by qualified name, empty where a runtime keeps its own to itself."""

    parameters: Mapping[str, torch.Tensor]
    buffers: Mapping[str, torch.Tensor]


NO_TENSORS = Tensors({}, {})


@dataclass(frozen=True)
class Loaded:
    """``run`` takes every leaf by name, in the request's order. ``tensors`` looks anew each time: a module's may have
    been swapped. ``evidence`` says, after the calls, how the runtime came by its code. ``fresh`` loads once more,
    and may do so in the place of this one.

    ``module`` is what a trial may change between calls; None where there is nothing to change. The structure of what
    is returned is empty where the runtime does not know it.
    """

    run: Callable[[Mapping[str, Any]], Returned]
    evidence: Callable[[], dict[str, Any]]
    fresh: Callable[[], Loaded]
    tensors: Callable[[], Tensors] = lambda: NO_TENSORS
    module: torch.nn.Module | None = None

    def call(self, leaves: Mapping[str, Any]) -> Returned:
        return self.run(leaves)

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        return self.tensors().parameters

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        return self.tensors().buffers


def load(
    subject: Mapping[str, Any], request: SubjectRequest, device: str = "cpu", prepare: Prepare | None = None
) -> Loaded:
    """Load a subject for calls with the request's leaves. ``prepare`` gets its module before anything compiles it.

    ``device`` may carry a level (``cpu/avx2``), to which the process is held already.

    Refuses a kind that is not known, and ``prepare`` where the subject was built before it came here.
    """
    kind, place = subject.get("kind"), device.partition("/")[0]
    if prepare is not None and kind not in ("callable", "compiled", "mutant"):
        raise Refusal(f"a subject of the kind {kind!r} cannot be varied", limit="callable or compiled")
    if kind == "artifact":
        return load_artifact(Path(subject["path"]), subject["sha256"], subject["candidate_id"], place)
    if kind not in KINDS:
        raise Refusal(
            f"a subject of the kind {kind!r} is unknown",
            limit=f"artifact, {', '.join(KINDS)}",
            next_step="choose one as kind",
        )
    runner = importlib.import_module(KINDS[kind])
    return runner.load(subject, request, place) if prepare is None else runner.load(subject, request, place, prepare)


def load_artifact(path: Path, sha256: str, candidate_id: str, device: str = "cpu") -> Loaded:
    """Load the artifact with these bytes. Refuses other bytes, another candidate's, and a runtime that is not known."""
    artifact = open_artifact(path, sha256)
    if artifact.candidate_id != candidate_id:
        raise Refusal(
            f"artifact {sha256[:12]} belongs to candidate {artifact.candidate_id[:12]}",
            limit=f"{candidate_id[:12]} was asked for",
            next_step="compile the candidate again",
        )
    if artifact.runtime not in RUNTIMES:
        raise Refusal(
            f"artifact {sha256[:12]} wants the runtime {artifact.runtime!r}",
            limit=f"known here: {', '.join(RUNTIMES)}",
            next_step="compile it with a backend of this version",
        )
    return importlib.import_module(RUNTIMES[artifact.runtime]).load_artifact(artifact, device)


def by_leaves(target: Callable[..., Any], in_spec: str) -> Callable[[Mapping[str, Any]], Returned]:
    """``target`` called with its leaves packed into arguments as ``in_spec`` says."""
    packing = pytree.treespec_loads(in_spec)
    return lambda leaves: call_packed(target, leaves, packing)


def returned(value: Any) -> Returned:
    leaves, spec = pytree.tree_flatten(value)
    return Returned(leaves, structure_text(spec))


def tensors_of_module(module: torch.nn.Module, *, tied: bool = False) -> Tensors:
    """By the names that they have in the user's module; ``tied`` ones under each of theirs."""
    return Tensors(
        {
            name.replace(_COMPILED_PREFIX, ""): value
            for name, value in module.named_parameters(remove_duplicate=not tied)
        },
        {name.replace(_COMPILED_PREFIX, ""): value for name, value in module.named_buffers(remove_duplicate=not tied)},
    )
