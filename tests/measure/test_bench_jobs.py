"""The bench jobs on real artifacts, in a process of their own: against eager, against a baseline, gone wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tensorfarm.contract.artifact import write_artifact
from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Manifest
from tensorfarm.contract.program import Program

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@dataclass(frozen=True)
class Bench:
    folder: Path
    program: Program

    def artifact(self, name: str) -> dict[str, str]:
        """An artifact of the program called ``name``: its operators one by one."""
        made = capture(f"bench_models:{name}")
        place = self.folder / f"{name}.artifact"
        lowered = graph_hash(made.graph)
        write_artifact(
            place,
            semantic_hash=made.semantic_hash,
            candidate_id=name,
            runtime="graph",
            options={},
            graph=made.graph,
            weights=made.weights,
            manifest=Manifest(made.semantic_hash, "fx:dce", {}, lowered, lowered, ()),
        )
        return {"artifact": str(place), "artifact_sha256": sha256_file(place), "candidate_id": name}

    def request(self, artifact: dict[str, str], **more: Any) -> dict[str, Any]:
        saved = self.folder / "brief.program"
        self.program.save(saved)
        known = {"program": str(saved), "program_sha256": sha256_file(saved), "mode": "training"}
        return {**known, **artifact, "pairs": 3, "seed": 0, "threads": 1, "threshold": 0.05, **more}

    def run(self, function: str, request: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        told = self.folder / "request.json"
        told.write_text(json.dumps(request))
        command = [sys.executable, str(HERE / "bench_child.py"), function, str(told)]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    def answer(self, function: str, request: dict[str, Any]) -> dict[str, Any]:
        done = self.run(function, request)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"), capture("bench_models:brief"))


def test_a_measurement_has_rows_of_both_sides_in_run_order(bench: Bench) -> None:
    rows = bench.answer("measure", bench.request(bench.artifact("brief")))["measurements"]
    series = {(row["metric"], row["variant"]): row for row in rows}
    assert series.keys() >= {
        (f"{head}step_seconds", side) for head in ("", "first_") for side in ("eager", "candidate")
    }
    eager, candidate = (series["step_seconds", side] for side in ("eager", "candidate"))
    assert len(eager["samples"]) == len(candidate["samples"])
    assert len(eager["samples"]) % (2 * 3) == 0
    assert len(series["first_step_seconds", "eager"]["samples"]) == 1
    assert min(eager["samples"]) <= eager["p10"] <= eager["p50"] <= eager["p90"] <= max(eager["samples"])
    assert eager["device"] == "cpu"


def test_an_artifact_that_does_twice_the_work_is_found_to_be_worse(bench: Bench) -> None:
    request = bench.request(bench.artifact("longer"), baseline=bench.artifact("brief"))
    seen = bench.answer("compare", request)
    assert seen["verdict"] in ("worse", "inconclusive"), seen["message"]  # a busy machine may not let it be told
    assert seen["ratio"] > 1.3
    assert seen["ratio_lower"] <= seen["ratio"] <= seen["ratio_upper"]
    metrics = {(row["metric"], row["variant"]) for row in seen["measurements"]}
    assert {("paired_step_seconds", "candidate"), ("paired_step_seconds", "baseline")} <= metrics


def test_a_baseline_that_is_gone_is_an_answer_and_not_the_candidates_fault(bench: Bench) -> None:
    gone = bench.artifact("brief") | {"artifact": str(bench.folder / "gone.artifact")}
    seen = bench.answer("compare", bench.request(bench.artifact("brief"), baseline=gone))
    assert seen["verdict"] == "inconclusive"
    assert seen["message"].startswith("the baseline does not run here: ")
    assert seen["measurements"] == []


def test_a_candidate_of_other_bytes_is_raised(bench: Bench) -> None:
    altered = bench.artifact("brief") | {"artifact_sha256": "0" * 64}
    done = bench.run("measure", bench.request(altered))
    assert done.returncode == 1
    assert "SideFailed: candidate: CorruptBundle" in done.stderr
