"""Compiles with Inductor and loads what came of it: each sets up a whole process, so each has one of its own."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.capture import captured
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.inductor_runtime import BUILD_ROOT_VARIABLE
from tensorfarm.contract.manifest import Entry
from tensorfarm.contract.program import Program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CANDIDATE = "c0ffee" * 8
COMPILE = """
import json, sys
from tensorfarm.compiler.compile import compile_candidate
print(json.dumps(compile_candidate(json.loads(sys.argv[1]))))
"""
LOAD = """
import json, sys
from pathlib import Path
import torch
from tensorfarm.contract import inductor_runtime
from tensorfarm.contract.artifact import open_artifact
from tensorfarm.contract.executable import executable
from tensorfarm.contract.program import Program

artifact, program = open_artifact(Path(sys.argv[1]), sys.argv[2]), Program.load(Path(sys.argv[3]))
place = inductor_runtime.build_path(artifact.candidate_id)
assert not place.exists()
artifact.unpack_runtime(place)
for name in sys.argv[4:]:
    next(place.rglob(name)).unlink()
inductor_runtime.apply_settings(place, artifact.options["settings"])
inductor_runtime.block_compilation()

def results(call, parameters):
    flags = {item.name: item.requires_grad for item in program.graph.inputs}
    inputs = [tensor.clone().requires_grad_(flags[name]) for name, tensor in program.inputs.items()]
    with torch.set_grad_enabled(artifact.options["mode"] == "training"):
        outputs = call(*inputs)
    trained = [value for value in (*inputs, *parameters) if value.requires_grad]
    seeds = [torch.ones_like(value) for value in outputs]
    if artifact.options["mode"] == "inference":
        return outputs
    return [*outputs, *torch.autograd.grad(outputs, trained, seeds)]

def fresh():
    return executable(artifact.graph, {name: value.clone() for name, value in artifact.weights.items()})

module, eager = fresh(), fresh()
seen = results(inductor_runtime.compiled(module), module.parameters())
evidence = inductor_runtime.cache_evidence()
expected = results(eager, eager.parameters())
worst = max(float((a - b).abs().max()) for a, b in zip(seen, expected))
print(json.dumps({"evidence": evidence, "compared": len(seen), "worst": worst}))
"""


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.down = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        return torch.softmax(self.down(hidden + torch.nn.functional.gelu(self.norm(hidden))), dim=-1)


def mlp() -> Program:
    torch.manual_seed(0)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
    return captured("mlp", torch.export.export(Mlp(), (x,), strict=False))


@dataclass(frozen=True)
class Compiled:
    program: Program
    program_path: Path
    build_root: Path
    answer: dict[str, Any]
    left_behind: tuple[str, ...]

    @property
    def build_path(self) -> Path:
        return self.build_root / CANDIDATE

    @property
    def sites(self) -> list[Entry]:
        """Those that carry a number, in its order."""
        entries = [entry for entry in self.artifact.manifest.entries if "ordinal" in entry.attributes]
        return sorted(entries, key=lambda entry: int(entry.attributes["ordinal"]))

    @property
    def artifact(self) -> Artifact:
        return open_artifact(Path(self.answer["uri"]), self.answer["artifact_sha256"])

    def loaded(self, *deleted: str) -> subprocess.CompletedProcess[str]:
        """Load in a fresh process, which unpacks the artifact and deletes the named files before."""
        shutil.rmtree(self.build_path, ignore_errors=True)
        return python(
            self.build_root, LOAD, self.answer["uri"], self.answer["artifact_sha256"], str(self.program_path), *deleted
        )


def python(build_root: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, BUILD_ROOT_VARIABLE: str(build_root)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)


def compiled(folder: Path, program: Program, mode: str, pipeline: str = "inductor", switches: str = "all") -> Compiled:
    """Compile in a fresh process; the passes of ``examples`` can be named."""
    folder.mkdir(exist_ok=True)
    path = folder / "program"
    request = {
        "program": str(path),
        "program_sha256": program.save(path),
        "candidate_id": CANDIDATE,
        "semantic_hash": program.semantic_hash,
        "mode": mode,
        "pipeline": pipeline,
        "switches": switches,
        "target": "cpu/any",
        "toolchain": {"torch": torch.__version__},
        "built": str(folder / "built"),
        "python_path": [str(EXAMPLES)],
        "threads": 1,
    }
    done = python(folder / "build", COMPILE, canonical_json(request))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    left_behind = [item.name for part in ("build", "built") for item in (folder / part).iterdir()]
    return Compiled(program, path, folder / "build", answer, tuple(sorted(left_behind)))
