"""Compiling one candidate: the step that the farm runs in a child of its own.

The semantic hash is carried from the program into the artifact, never computed here: a compiler cannot be the witness
to its own preservation.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tensorfarm.compiler.pipeline import known_backend, parse
from tensorfarm.compiler.sequence import Decided
from tensorfarm.compiler.task import Backend, Lowered, Task
from tensorfarm.contract.artifact import write_artifact
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Manifest
from tensorfarm.contract.program import MODES, Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.switches import Switches


def compile_candidate(request: Mapping[str, Any]) -> dict[str, Any]:
    """Build one artifact; returns its address, size and decisions.

    ``request``: program (path), program_sha256, candidate_id, semantic_hash, mode, pipeline, target, toolchain
    (versions by name), built (folder for artifacts), python_path (folders of users' passes), threads, and, for a
    bisection, switches (which sites are on). Raises IllegalGraph where the graph is or becomes illegal,
    UnsupportedByBackend, Refusal for a request that makes no sense, and whatever a crashing pass or code generator
    raises.
    """
    start = time.perf_counter()
    torch.set_num_threads(int(request["threads"]))
    sys.path[:0] = [folder for folder in request["python_path"] if folder not in sys.path]
    program = Program.load(Path(request["program"]), request["program_sha256"])
    _refuse_another_program(program, request["semantic_hash"])
    built = Path(request["built"])
    built.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=built) as scratch:
        task = _task(program, request, Path(scratch))
        program.graph.validate()
        lowered = _backend(task)(task)
        path, sha256 = _written(task, lowered, Path(scratch), built)
    return {
        "artifact_sha256": sha256,
        "size_bytes": path.stat().st_size,
        "uri": str(path),
        "compile_seconds": time.perf_counter() - start,
        "n_sites": n_sites(lowered.decided),
        "manifest": manifest_rows(lowered.decided),
    }


def _refuse_another_program(program: Program, wanted: str) -> None:
    if program.semantic_hash != wanted:
        raise Refusal(
            f"the program file holds {program.semantic_hash[:12]}",
            limit=f"{wanted[:12]} was asked for",
            next_step="capture the program again",
        )


def _task(program: Program, request: Mapping[str, Any], scratch: Path) -> Task:
    if request["mode"] not in MODES:
        raise Refusal(
            f"mode {request['mode']!r} is unknown", limit=f"known: {', '.join(MODES)}", next_step="correct the sweep"
        )
    return Task(
        program=program,
        candidate_id=request["candidate_id"],
        mode=request["mode"],
        pipeline=parse(request["pipeline"]),
        target=request["target"],
        scratch=scratch,
        toolchain=request["toolchain"],
        switches=Switches.parse(request.get("switches", "all")),
    )


def _backend(task: Task) -> Backend:
    return importlib.import_module(known_backend(task.pipeline).module).lower


def _written(task: Task, lowered: Lowered, scratch: Path, built: Path) -> tuple[Path, str]:
    """Write the artifact apart, then rename it to its address: a file that is there is whole."""
    manifest = Manifest(
        semantic_hash=task.program.semantic_hash,
        pipeline=str(task.pipeline),
        toolchain=dict(sorted(task.toolchain.items())),
        captured_ir_hash=graph_hash(task.program.graph),
        lowered_ir_hash=graph_hash(lowered.graph),
        entries=tuple(item.entry for item in lowered.decided),
    )
    unnamed = scratch / "unnamed.artifact"
    sha256 = write_artifact(
        unnamed,
        semantic_hash=task.program.semantic_hash,
        candidate_id=task.candidate_id,
        runtime=lowered.runtime,
        options=lowered.options,
        graph=lowered.graph,
        weights=lowered.weights,
        manifest=manifest,
        runtime_files=lowered.runtime_files,
    )
    path = built / f"{sha256}.artifact"
    os.replace(unnamed, path)
    return path, sha256


def n_sites(decided: Sequence[Decided]) -> int:
    """How many sites could be switched: those that carry a number."""
    return sum("ordinal" in item.entry.attributes for item in decided)


def manifest_rows(decided: Sequence[Decided]) -> list[dict[str, Any]]:
    """Decisions as rows of the ``manifests`` table, in order."""
    return [
        {
            "ordinal": ordinal,
            "kind": entry.kind.value,
            "name": entry.name,
            "site": entry.site,
            "decision": entry.decision.value,
            "reason": entry.reason,
            "numerics": entry.numerics.value,
            "ir_hash_before": entry.ir_hash_before,
            "ir_hash_after": entry.ir_hash_after,
            "wall_ns": wall_ns,
            "attributes": dict(entry.attributes),
        }
        for ordinal, (entry, wall_ns) in enumerate((item.entry, item.wall_ns) for item in decided)
    ]
