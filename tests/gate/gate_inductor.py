"""Builds an Inductor artifact with nothing but the contract's own runtime: what a compiler would hand to the gate."""

import sys
from pathlib import Path

import torch
from gate_workshop import CANDIDATE

from tensorfarm.contract import inductor_runtime
from tensorfarm.contract.artifact import write_artifact
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Manifest
from tensorfarm.contract.program import Program


def build(saved: str, target: str) -> None:
    """Compile for inference and write three artifacts below ``target``: whole, without a kernel, without an entry."""
    program = Program.load(Path(saved))
    place = inductor_runtime.build_path(CANDIDATE)
    with inductor_runtime.held(place), torch.no_grad():
        inductor_runtime.apply_settings(place, inductor_runtime.SETTINGS)
        inductor_runtime.compiled(executable(program.graph, program.weights))(*program.inputs.values())
    files = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    files = {name: path for name, path in files.items() if not name.startswith("locks")}
    told = graph_hash(program.graph)
    for name, absent in (("whole", "nothing"), ("kernel", ".so"), ("entry", "aotautograd")):
        write_artifact(
            Path(target) / name,
            semantic_hash=program.semantic_hash,
            candidate_id=CANDIDATE,
            runtime="inductor",
            options={"build_path": str(place), "settings": dict(inductor_runtime.SETTINGS)},
            graph=program.graph,
            weights=program.weights,
            manifest=Manifest(program.semantic_hash, "inductor", {}, told, told),
            runtime_files={key: path for key, path in files.items() if absent not in key},
        )


if __name__ == "__main__":
    build(sys.argv[1], sys.argv[2])
