"""The passes of ``examples`` do what they promise: one is slow and right to the bit, one is wrong at a single site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.compiler.compile import compile_candidate
from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.capture import capture
from tensorfarm.contract.program import Program
from tensorfarm.contract.yaml_file import read_yaml
from tensorfarm.gate.whole_run import certify_case

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FACTORY = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(12)
        self.up = torch.nn.Linear(12, 24)
        self.down = torch.nn.Linear(24, 12)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))) * 0.5

def block():
    torch.manual_seed(0)
    return Block(), (torch.randn(5, 12, generator=torch.Generator().manual_seed(1)),)
"""
Judged = Callable[..., tuple[Artifact, dict[str, Any]]]


@pytest.fixture(scope="module")
def factories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("factories")
    (folder / "planted_block.py").write_text(FACTORY)
    return folder


@pytest.fixture
def block(factories: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.syspath_prepend(factories)
    return capture("planted_block:block")


@pytest.fixture
def judged(block: Program, factories: Path, request_for: Callable[..., dict[str, Any]], tmp_path: Path) -> Judged:
    """Compiles the block and certifies what came of it: the artifact and the gate's verdict."""
    contract = read_yaml(ROOT / "configs" / "contracts" / "float32.yaml", "contract")

    def judge(pipeline: str) -> tuple[Artifact, dict[str, Any]]:
        request = request_for(block, pipeline, python_path=[str(EXAMPLES)])
        made = compile_candidate(request)
        case = {
            **request,
            "artifact": made["uri"],
            "artifact_sha256": made["artifact_sha256"],
            "contract": contract,
            "folder": str(tmp_path / "gate"),
        }
        verdict = certify_case(case, python_path=[str(factories)])
        return open_artifact(Path(made["uri"]), made["artifact_sha256"]), verdict

    return judge


def test_a_program_computed_twice_more_is_admitted_and_equal_to_the_bit(
    block: Program, judged: Judged, run: Callable[..., Any]
) -> None:
    artifact, verdict = judged("fx:dce,slow_pass:ComputeAgain{times=2}")
    assert verdict["outcome"] == "admitted", verdict
    # Both products, each computed twice more and kept by a maximum.
    assert len(artifact.graph.nodes) == len(block.graph.nodes) + 2 * 2 * 2
    seen, _, _ = run(artifact.graph, dict(artifact.weights), block.inputs)
    expected, _, _ = run(block.graph, block.weights, block.inputs)
    assert len(seen) == len(expected) == 1
    assert torch.equal(seen[0], expected[0])


def test_a_wrong_site_is_refused_and_with_that_site_off_nothing_is_wrong(
    block: Program, judged: Judged, request_for: Callable[..., dict[str, Any]], run: Callable[..., Any]
) -> None:
    pipeline = "fx:dce,planted:OneWrongSite{nth=3}"
    artifact, verdict = judged(pipeline)
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "forward"), verdict
    sites = [entry for entry in artifact.manifest.entries if entry.name == "one-wrong-site" and entry.site]
    assert len(sites) > 4
    (culprit,) = [entry.attributes["ordinal"] for entry in sites if entry.attributes["index"] == "3"]
    assert [node.op for node in artifact.graph.nodes.values()].count("aten.neg.default") == 1
    off = compile_candidate(request_for(block, pipeline, switches=f"all but {culprit}", python_path=[str(EXAMPLES)]))
    graph = open_artifact(Path(off["uri"]), off["artifact_sha256"]).graph
    seen, _, _ = run(graph, block.weights, block.inputs)
    expected, _, _ = run(block.graph, block.weights, block.inputs)
    assert torch.equal(seen[0], expected[0])
