"""One candidate through the ``fx`` backend: the artifact says what it is, and equal requests give equal bytes."""

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tensorfarm.compiler as compiler
from tensorfarm.compiler.compile import compile_candidate
from tensorfarm.compiler.pipeline import BUILT_IN
from tensorfarm.compiler.sequence import BrokenPass
from tensorfarm.compiler.task import UnsupportedByBackend
from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.bundle import CorruptBundle
from tensorfarm.contract.digest import canonical_json, sha256_file
from tensorfarm.contract.graph import Graph, IllegalGraph, Node, Ref
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.ir_contract import drifts, folded_constants
from tensorfarm.contract.manifest import EntryKind
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal

ROOT = Path(__file__).parents[2]
PIPELINE = "fx:drop-noop-casts,cse,fold-constants{limit=2048},dce"
COMPILE = """
import json, sys
from tensorfarm.compiler.compile import compile_candidate
print(compile_candidate(json.loads(sys.argv[1]))["artifact_sha256"])
"""
Request = Callable[..., dict[str, Any]]
Zoo = Callable[[str], Program]


def opened(answer: dict[str, Any]) -> Artifact:
    return open_artifact(Path(answer["uri"]), answer["artifact_sha256"])


def test_an_artifact_carries_the_program_and_every_decision(model: Program, request_for: Request) -> None:
    answer = compile_candidate(request_for(model, PIPELINE))
    artifact = opened(answer)
    assert (artifact.runtime, dict(artifact.options)) == ("graph", {})
    assert artifact.semantic_hash == artifact.manifest.semantic_hash == model.semantic_hash
    assert artifact.candidate_id == "c0ffee" * 8
    assert artifact.manifest.pipeline == PIPELINE
    assert artifact.manifest.captured_ir_hash == graph_hash(model.graph)
    assert artifact.manifest.lowered_ir_hash == graph_hash(artifact.graph)
    assert artifact.manifest.gaps() == []
    assert drifts(model.graph, model.semantic_hash, artifact.graph, artifact.semantic_hash) == []
    assert answer["size_bytes"] == Path(answer["uri"]).stat().st_size
    assert answer["compile_seconds"] > 0


def test_the_answer_is_plain_json_and_rows_are_the_manifest(zoo: Zoo, request_for: Request) -> None:
    answer = compile_candidate(request_for(zoo("language:gpt2"), PIPELINE))
    entries = opened(answer).manifest.entries
    rows = answer["manifest"]
    canonical_json(rows)
    assert [row["ordinal"] for row in rows] == list(range(len(entries)))
    assert [(row["kind"], row["name"], row["site"], row["reason"]) for row in rows] == [
        (entry.kind.value, entry.name, entry.site, entry.reason) for entry in entries
    ]
    assert all(row["wall_ns"] > 0 for row in rows if row["kind"] == "pass")


def test_an_artifact_runs_like_the_program(model: Program, request_for: Request, run: Callable[..., Any]) -> None:
    artifact = opened(compile_candidate(request_for(model, PIPELINE)))
    for old, new in zip(
        run(model.graph, model.weights, model.inputs)[0],
        run(artifact.graph, artifact.weights, model.inputs)[0],
        strict=True,
    ):
        assert torch.equal(old, new)


def test_a_folded_constant_is_a_weight_that_names_its_origin(zoo: Zoo, request_for: Request) -> None:
    program = zoo("language:llama")
    artifact = opened(compile_candidate(request_for(program, PIPELINE)))
    folded = folded_constants(program.graph, artifact.graph)
    assert folded
    assert all(weight.target in program.graph.nodes and weight.name in artifact.weights for weight in folded)


def test_two_processes_give_the_same_bytes(zoo: Zoo, request_for: Request, tmp_path: Path) -> None:
    program = zoo("language:t5")
    here = compile_candidate(request_for(program, PIPELINE))
    request = request_for(program, PIPELINE, built=str(tmp_path / "elsewhere"))
    there = subprocess.run(
        [sys.executable, "-c", COMPILE, canonical_json(request)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout.strip() == here["artifact_sha256"]


def test_an_artifact_lies_at_its_address_and_nothing_else_is_left(zoo: Zoo, request_for: Request) -> None:
    request = request_for(zoo("operators:suite"), "fx")
    answer = compile_candidate(request)
    assert [path.name for path in Path(request["built"]).iterdir()] == [f"{answer['artifact_sha256']}.artifact"]
    assert sha256_file(Path(answer["uri"])) == answer["artifact_sha256"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"mode": "trainig"}, "mode 'trainig' is unknown"),
        ({"pipeline": "fxx:dce"}, "backend 'fxx' is unknown"),
        ({"pipeline": "fx:dec"}, "'dec', which is unknown"),
        ({"pipeline": "fx{fast=1}:dce"}, "backend fx has no option fast=1"),
        ({"pipeline": "inductor{mode=fast}"}, "backend inductor has no option mode=fast"),
        ({"pipeline": "inductor:dce"}, "pass dce stands before inductor"),
        ({"semantic_hash": "0" * 64}, "the program file holds"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_leaves_nothing(
    zoo: Zoo, request_for: Request, changed: dict[str, str], told: str
) -> None:
    request = {**request_for(zoo("operators:suite"), "fx"), **changed}
    with pytest.raises(Refusal) as refused:
        compile_candidate(request)
    assert told in refused.value.fact
    assert refused.value.exit_code == 2
    assert not Path(request["built"]).exists() or list(Path(request["built"]).iterdir()) == []


def test_a_target_that_inductor_is_not_built_for_is_unsupported(zoo: Zoo, request_for: Request) -> None:
    with pytest.raises(UnsupportedByBackend) as refused:
        compile_candidate(request_for(zoo("operators:suite"), "inductor", target="cuda/sm_90"))
    assert refused.value.exit_code == 11


def test_other_bytes_than_the_approved_ones_are_refused(zoo: Zoo, request_for: Request) -> None:
    with pytest.raises(CorruptBundle):
        compile_candidate(request_for(zoo("operators:suite"), "fx", program_sha256="0" * 64))


def test_an_illegal_program_is_rejected_as_such(zoo: Zoo, request_for: Request) -> None:
    program = zoo("operators:suite")
    graph = program.graph.copy()
    last = next(reversed(graph.nodes.values()))
    graph.insert(
        Node("early", "aten.neg.default", (Ref(last.name),), (), last.results, False, ("early",)), before="mul"
    )
    with pytest.raises(IllegalGraph) as refused:
        compile_candidate(request_for(replace(program, graph=graph), "fx:dce"))
    assert refused.value.exit_code == 10


BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
from tensorfarm.compiler.site import Site
from tensorfarm.contract.manifest import Numerics

@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken"
    numerics: ClassVar[Numerics] = Numerics.EXACT
    def sites(self, graph):
        yield Site((next(iter(graph.nodes)),))
    def rewrite(self, graph, site):
        {rewrite}
"""


@pytest.mark.parametrize(
    ("rewrite", "kind"), [("del graph.nodes[site.nodes[0]]", IllegalGraph), ("raise RuntimeError('oh')", BrokenPass)]
)
def test_a_users_broken_pass_is_named(
    zoo: Zoo, request_for: Request, tmp_path: Path, rewrite: str, kind: type[Exception]
) -> None:
    module = f"broken_{kind.__name__.lower()}"
    (tmp_path / f"{module}.py").write_text(BROKEN.format(rewrite=rewrite))
    request = request_for(zoo("operators:suite"), f"fx:dce,{module}:Broken", python_path=[str(tmp_path)])
    with pytest.raises(kind, match=r"pass broken \(after dce\)"):
        compile_candidate(request)


def test_the_planted_pass_changes_values_and_hides_it_from_structure(
    zoo: Zoo, request_for: Request, run: Callable[..., Any]
) -> None:
    program = zoo("language:gpt2")
    request = request_for(program, "fx:dce,planted:WrongScale", python_path=[str(ROOT / "examples")])
    artifact = opened(compile_candidate(request))
    assert drifts(program.graph, program.semantic_hash, artifact.graph, artifact.semantic_hash) == []
    assert artifact.manifest.gaps() == []
    (expected, *_), (seen, *_) = (
        run(*which, program.inputs)[0]
        for which in ((program.graph, program.weights), (artifact.graph, artifact.weights))
    )
    assert (expected - seen).abs().max() > 1e-3


def test_the_example_of_a_users_pass_does_what_it_says(request_for: Request, zoo: Zoo) -> None:
    program = zoo("operators:suite")
    graph = with_double_negation(program.graph)
    request = request_for(
        replace(program, graph=graph), "fx:my_passes:DropDoubleNegation", python_path=[str(ROOT / "examples")]
    )
    artifact = opened(compile_candidate(request))
    sites = [entry for entry in artifact.manifest.entries if entry.kind is EntryKind.SITE]
    assert [entry.attributes["nodes"] for entry in sites] == ["twice,once,mul"]
    assert "twice" not in artifact.graph.nodes
    assert set(artifact.graph.nodes["mul"].origins) == {"mul", "once", "twice"}
    assert drifts(graph, program.semantic_hash, artifact.graph, artifact.semantic_hash) == []


def with_double_negation(graph: Graph) -> Graph:
    graph = graph.copy()
    mul = graph.nodes["mul"]
    after = list(graph.nodes)[list(graph.nodes).index("mul") + 1]
    graph.replace_uses("mul", "twice")
    for name, operand in (("once", "mul"), ("twice", "once")):
        node = Node(name, "aten.neg.default", (Ref(operand),), (), mul.results, False, (name,))
        graph.insert(node, before=after)
    return graph


def test_the_compiler_never_mints_an_identity() -> None:
    folder = Path(compiler.__file__).parent
    minted = [
        path.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.ImportFrom, ast.Import))
        and ("identity" in (getattr(node, "module", None) or "") or any("mint" in alias.name for alias in node.names))
    ]
    assert minted == []


def test_every_pass_of_the_compiler_is_known_by_its_own_name() -> None:
    assert {name: kind.name for name, kind in BUILT_IN.items()} == {name: name for name in BUILT_IN}
    assert set(BUILT_IN) == {"cse", "dce", "drop-noop-casts", "fold-constants"}
