"""A program and an artifact of it, built in a child: no cluster, no store, and a compiler that dies dies alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from tensorfarm.compiler.compile import compile_candidate
from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.outcome import Outcome
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine.toolchain import this_toolchain
from tensorfarm.gate.child import leave_refusal, refusal_in, run_child
from tensorfarm.gate.limits import Limits

_RESULT, _REFUSED = "built.json", "refused.json"
_THREADS = 1


def built_apart(
    source: str, pipeline: str, mode: str, python_path: Sequence[str], folder: Path, limits: Limits
) -> tuple[Path, Path]:
    """The program's and the artifact's file, both in ``folder``. Raises Refusal with the exit code of a program that is
    illegal or cannot be compiled."""
    arguments = [source, pipeline, mode, str(folder), *python_path]
    code = "import sys; from tensorfarm.farm.app import built_apart as built; from tensorfarm.gate import child"
    code = f"{code}; child.leave_with(lambda: built.main(sys.argv[1:]))"
    ended = run_child([sys.executable, "-c", code, *arguments], limits)
    refusal = refusal_in(folder / _REFUSED)
    if refusal is not None:
        raise refusal
    if ended.returncode != 0 or not (folder / _RESULT).is_file():
        raise Refusal(
            f"compiling {source} with {pipeline} ended with {ended.death}",
            limit="a compiler that ends by itself",
            next_step="compile it on its own and look at all that it prints; where it is only slow, give more seconds",
            exit_code=Outcome.COMPILE_FAILURE.exit_code,
        )
    built = json.loads((folder / _RESULT).read_text())
    return Path(built["program"]), Path(built["artifact"])


def main(arguments: Sequence[str]) -> int:
    """In the child: 0, or a refusal's exit code."""
    source, pipeline, mode, place, *python_path = arguments
    folder = Path(place)
    sys.path[:0] = python_path
    try:
        torch.manual_seed(0)
        program = capture(source)
        toolchain = this_toolchain()
        file = folder / "captured.program"
        request = {
            "program": str(file),
            "program_sha256": program.save(file),
            "candidate_id": sha256_json([program.semantic_hash, pipeline, mode, toolchain.id]),
            "semantic_hash": program.semantic_hash,
            "mode": mode,
            "pipeline": pipeline,
            "target": toolchain.target,
            "toolchain": dict(toolchain.facts),
            "built": str(folder / "built"),
            "python_path": python_path,
            "threads": _THREADS,
        }
        built = compile_candidate(request)
    except Refusal as refusal:
        return leave_refusal(folder / _REFUSED, refusal)
    (folder / _RESULT).write_text(json.dumps({"program": str(file), "artifact": built["uri"]}))
    return 0
