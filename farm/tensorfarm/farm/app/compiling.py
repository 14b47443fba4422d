"""The compile job: runs in a child, builds the artifact and says by what the cost model knows what was built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorfarm.compiler.compile import compile_candidate
from tensorfarm.contract.artifact import open_artifact
from tensorfarm.contract.manifest import EntryKind
from tensorfarm.cost_model.features import features_of_lowered


def compile_and_describe(request: Mapping[str, Any]) -> dict[str, Any]:
    """``compile_candidate`` and the features of what it built. Same request, same errors.

    With ``twice`` in the request it builds again and adds ``steady``: whether the same bytes came out.
    """
    built = compile_candidate(request)
    if request.get("twice"):
        built["steady"] = compile_candidate(request)["artifact_sha256"] == built["artifact_sha256"]
    artifact = open_artifact(Path(built["uri"]), built["artifact_sha256"])
    kernels = sum(entry.kind is EntryKind.KERNEL for entry in artifact.manifest.entries)
    return {**built, "features": features_of_lowered(artifact.graph, request["mode"], kernels)}
