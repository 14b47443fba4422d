"""The ``inductor`` backend: its artifact answers a fresh process at the same path, and says how it was made."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from inductor_workshop import CANDIDATE, Compiled, compiled

from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.ir_contract import drifts
from tensorfarm.contract.manifest import EntryKind
from tensorfarm.contract.program import Program

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


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
    passes = [entry for entry in entries if entry.attributes.get("subsystem") == "post_grad_passes"]
    assert "remove_noop_ops" in {entry.name for entry in passes}
    assert all(entry.ir_hash_before and entry.ir_hash_after for entry in passes)


def test_every_node_and_kernel_names_captured_nodes_it_came_from(trained: Compiled) -> None:
    captured_names = trained.program.graph.nodes.keys()
    entries = [entry for entry in trained.artifact.manifest.entries if "graph" in entry.attributes]
    assert len(entries) > 20
    origins = {name for entry in entries for name in entry.attributes["origins"].split(",")}
    assert origins == set(captured_names)


def test_compiling_leaves_an_artifact_and_a_lock_file(trained: Compiled) -> None:
    left = {name for name in trained.left_behind if not name.startswith("kernels-")}
    assert left == {f"{CANDIDATE}.lock", f"{trained.answer['artifact_sha256']}.artifact"}


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
