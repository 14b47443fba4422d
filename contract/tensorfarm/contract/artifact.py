"""What a backend hands over: one bundle, addressed by its content, that runs without the compiler.

Members: ``artifact.json`` (semantic hash, runtime and its options), ``graph.json`` (the lowered graph),
``weights.tensors``, ``manifest.json`` and whatever files the runtime needs under ``runtime/``. What was gated is what
ships: everyone loads these bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract import graph_json
from tensorfarm.contract.bundle import Bundle, CorruptBundle, pack
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.manifest import Manifest
from tensorfarm.contract.program import read_member
from tensorfarm.contract.refusal import one_line
from tensorfarm.contract.tensors import write_tensors

FORMAT = "tensorfarm.artifact/1"
RUNTIME_FOLDER = "runtime/"
_FIELDS = ("semantic_hash", "candidate_id", "runtime", "options")


@dataclass(frozen=True)
class Artifact:
    """An artifact opened for use. ``runtime`` names the gate's runner (``graph``, ``inductor``)."""

    sha256: str
    semantic_hash: str
    candidate_id: str
    runtime: str
    options: Mapping[str, Any]
    graph: Graph
    weights: dict[str, torch.Tensor]
    manifest: Manifest
    path: Path

    def unpack_runtime(self, target: Path) -> None:
        """Write the runtime's files below ``target``."""
        Bundle(self.path, self.sha256).extract(target, RUNTIME_FOLDER)


def write_artifact(
    path: Path,
    *,
    semantic_hash: str,
    candidate_id: str,
    runtime: str,
    options: Mapping[str, Any],
    graph: Graph,
    weights: Mapping[str, torch.Tensor],
    manifest: Manifest,
    runtime_files: Mapping[str, Path] | None = None,
) -> str:
    """Pack an artifact and return its sha256. ``runtime_files`` maps relative names to files."""
    header = {
        "format": FORMAT,
        "semantic_hash": semantic_hash,
        "candidate_id": candidate_id,
        "runtime": runtime,
        "options": dict(options),
    }
    members: dict[str, bytes | Path] = {
        "artifact.json": canonical_json(header).encode(),
        "graph.json": graph_json.dumps(graph).encode(),
        "manifest.json": manifest.to_json().encode(),
    }
    members |= {RUNTIME_FOLDER + name: file for name, file in (runtime_files or {}).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=path.name, dir=path.parent) as scratch:
        members["weights.tensors"] = Path(scratch) / "weights"
        write_tensors(members["weights.tensors"], weights)
        return pack(path, members)


def open_artifact(path: Path, expected_sha256: str) -> Artifact:
    """Open the artifact whose bytes hash to ``expected_sha256``. Raises CorruptBundle on any other bytes."""
    bundle = Bundle(path, expected_sha256)
    try:
        return _opened(bundle, read_header(bundle), path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unlike(path, error) from None


def read_header(bundle: Bundle) -> Mapping[str, Any]:
    """``artifact.json`` of a bundle. Raises CorruptBundle where it is none of this format."""
    try:
        header: Any = json.loads(bundle.read("artifact.json"))
    except (ValueError, RecursionError) as error:
        raise _unlike(bundle.path, error) from None
    found = header.get("format") if isinstance(header, Mapping) else None
    if found != FORMAT:
        raise CorruptBundle(f"{bundle.path.name} has format {found!r}", limit=FORMAT, next_step="compile it again")
    missing = [name for name in _FIELDS if name not in header]
    if missing:
        fact = f"artifact.json of {bundle.path.name} has no {', '.join(missing)}"
        raise CorruptBundle(fact, limit=FORMAT, next_step="compile it again")
    return header


def _unlike(path: Path, error: Exception) -> CorruptBundle:
    fact = f"{path.name} is no artifact as it was written: {one_line(error)}"
    return CorruptBundle(fact, limit=FORMAT, next_step="compile it again")


def _opened(bundle: Bundle, header: Mapping[str, Any], path: Path) -> Artifact:
    return Artifact(
        sha256=bundle.sha256,
        semantic_hash=header["semantic_hash"],
        candidate_id=header["candidate_id"],
        runtime=header["runtime"],
        options=header["options"],
        graph=graph_json.decoded(json.loads(bundle.read("graph.json"))),
        weights=read_member(bundle, "weights.tensors"),
        manifest=Manifest.from_json(json.loads(bundle.read("manifest.json"))),
        path=path,
    )
