"""The capture job: runs in a child, turns a factory or an export file into a program file in the store."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorfarm.contract.capture import capture
from tensorfarm.contract.program import Program
from tensorfarm.cost_model.features import features_of_program


def capture_program(request: Mapping[str, Any]) -> dict[str, Any]:
    """Capture ``request["source"]`` into the folder ``request["programs"]``; the file's name is its sha256.

    Returns the fields of a ``ProgramCaptured`` event, features for ``request["mode"]``, and the canonical text.
    """
    started = time.perf_counter()
    program = capture(request["source"])
    folder = Path(request["programs"])
    scratch = folder / f".{os.getpid()}.program"
    sha256 = program.save(scratch)
    scratch.rename(folder / f"{sha256}.program")
    return {
        "source": program.source,
        "semantic_hash": program.semantic_hash,
        "input_spec_id": program.input_spec_id,
        "program_sha256": sha256,
        "dtype": dtype_of(program),
        "n_nodes": len(program.graph.nodes),
        "weight_bytes": sum(tensor.numel() * tensor.element_size() for tensor in program.weights.values()),
        "seconds": time.perf_counter() - started,
        "features": features_of_program(program.graph, request["mode"]),
        "canonical": program.canonical,
    }


def dtype_of(program: Program) -> str:
    """The floating dtype that most of the weights, or else of the inputs, have."""
    tensors = [*program.weights.values(), *program.inputs.values()]
    floating = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors if tensor.dtype.is_floating_point]
    return max(sorted(set(floating)), key=floating.count) if floating else "none"
