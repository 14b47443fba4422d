"""The ``inductor`` backend: its artifact answers a fresh process at the same path, and says how it was made.

Compiling sets up a whole process, so each compilation and each loading has one of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.capture import captured
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.inductor_runtime import BUILD_ROOT_VARIABLE
from tensorfarm.contract.ir_contract import drifts
from tensorfarm.contract.manifest import EntryKind
from tensorfarm.contract.program import Program

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

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
        return torch.softmax(self.down(torch.nn.functional.gelu(self.norm(self.up(x)))), dim=-1)


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


def compiled(folder: Path, program: Program, mode: str) -> Compiled:
    path = folder / "program"
    request = {
        "program": str(path),
        "program_sha256": program.save(path),
        "candidate_id": CANDIDATE,
        "semantic_hash": program.semantic_hash,
        "mode": mode,
        "pipeline": "inductor",
        "target": "cpu/any",
        "toolchain": {"torch": torch.__version__},
        "built": str(folder / "built"),
        "python_path": [],
        "threads": 1,
    }
    done = python(folder / "build", COMPILE, canonical_json(request))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    left_behind = [item.name for part in ("build", "built") for item in (folder / part).iterdir()]
    return Compiled(program, path, folder / "build", answer, tuple(sorted(left_behind)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(tmp_path_factory.mktemp("training"), mlp(), "training")


def test_a_fresh_process_is_answered_without_compiling_anything(trained: Compiled) -> None:
    done = trained.loaded()
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["evidence"] == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 2}
    assert seen["compared"] == 8
    assert seen["worst"] < 1e-5


def test_a_kernel_that_is_missing_is_not_built_again(trained: Compiled) -> None:
    done = trained.loaded("*.main.so")
    assert done.returncode != 0
    assert "RecompileBlocked" in done.stderr


def test_the_artifact_carries_the_captured_graph_and_its_weights(trained: Compiled) -> None:
    artifact = trained.artifact
    program = trained.program
    assert artifact.runtime == "inductor"
    assert artifact.options["mode"] == "training"
    assert artifact.semantic_hash == program.semantic_hash
    assert graph_hash(artifact.graph) == graph_hash(program.graph)
    assert drifts(program.graph, program.semantic_hash, artifact.graph, artifact.semantic_hash) == []
    assert artifact.manifest.gaps() == []


def test_the_manifest_tells_flags_passes_nodes_and_kernels_of_both_graphs(trained: Compiled) -> None:
    entries = trained.artifact.manifest.entries
    flags = {entry.name for entry in entries if entry.kind is EntryKind.FLAG}
    assert {"torch", "mode", "inductor.fx_graph_cache"} <= flags
    told = {(entry.attributes["what"], entry.attributes["graph"]) for entry in entries if "graph" in entry.attributes}
    kernels = {("generated", graph) for graph in ("forward", "backward")} | {("extern", "forward")}
    assert kernels | {("node", "forward"), ("node", "backward")} <= told
    passes = [entry for entry in entries if entry.attributes.get("what") == "pass"]
    assert "remove_noop_ops" in {entry.name for entry in passes}
    assert all(entry.ir_hash_before and entry.ir_hash_after for entry in passes)


def test_every_node_and_kernel_names_captured_nodes_it_came_from(trained: Compiled) -> None:
    captured_names = trained.program.graph.nodes.keys()
    entries = [entry for entry in trained.artifact.manifest.entries if "origins" in entry.attributes]
    assert len(entries) > 20
    origins = {name for entry in entries for name in entry.attributes["origins"].split(",")}
    assert origins == set(captured_names)


def test_compiling_leaves_an_artifact_and_a_lock_file(trained: Compiled) -> None:
    assert set(trained.left_behind) == {f"{CANDIDATE}.lock", f"{trained.answer['artifact_sha256']}.artifact"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("name", ["vision:convnet", "language:bert"])
def test_models_are_answered_in_a_fresh_process(
    tmp_path: Path, zoo: Callable[[str], Program], name: str, mode: str
) -> None:
    case = compiled(tmp_path, zoo(name), mode)
    done = case.loaded()
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["evidence"] == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 2 if mode == "training" else 1}
    assert seen["worst"] < 1e-3
