"""``farm verify``: one module or one artifact before the gate, as a table, as JSON, as a page, and as a test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.contract.artifact import open_artifact, write_artifact
from tensorfarm.contract.digest import sha256_file
from tensorfarm.farm import cli
from tensorfarm.farm.app.built_apart import built_apart
from tensorfarm.gate.limits import DEFAULT_LIMITS

MODELS = """
import torch


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 8)

    def forward(self, x):
        y = self.up(x)
        return torch.tanh(y) - 0.5 * torch.tanh(y)


def mlp():
    torch.manual_seed(0)
    return Mlp(), (torch.randn(3, 4, generator=torch.Generator().manual_seed(1)),)


def not_quite(graph, _inputs):
    def run(*arguments):
        return tuple(value + 1e-4 for value in graph.forward(*arguments))
    return run
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "verified.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verified(capsys: pytest.CaptureFixture[str], *arguments: str, level: str = "quick") -> tuple[int, dict[str, Any]]:
    code = cli.run(["verify", *arguments, "--level", level, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {"error": err}


def run_pytest(folder: Path, file: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


OFF = ("verify", "verified:mlp", "--backend", "verified:not_quite", "--level", "quick")


def test_a_backend_that_is_off_is_refused_rated_and_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run([*OFF, "--html", "page.html"])
    out = capsys.readouterr().out
    assert code == 13
    for words in ("conformance_failure", "critical forward: output 0", "worst element [", "did not apply", "again: "):
        assert words in out
    page = (project / "page.html").read_text()
    assert "<script" not in page
    assert '<span class="critical">critical</span> forward: output 0' in page
    assert "http" not in page


@pytest.mark.slow
def test_the_test_that_is_written_of_it_fails_alike(project: Path) -> None:
    assert cli.run([*OFF, "--author", "test_authored.py"]) == 13
    done = run_pytest(project, "test_authored.py")
    assert "1 failed" in done.stdout
    assert "CRITICAL forward: output 0" in done.stdout


@pytest.mark.slow
def test_an_honest_backend_is_admitted_and_so_is_the_test_that_is_written_of_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--backend", "aot_eager", "--author", "test_authored.py")
    code, told = verified(capsys, "verified:mlp", *asked, level="standard")  # the lowest at which capture is judged
    assert (code, told["outcome"], told["attestation"]["isolation"]) == (0, "admitted", "process")
    checks = {row["check_name"] for row in told["findings"] if row["status"] == "pass"}
    assert {"forward", "capture", "metadata"} <= checks
    assert {row["severity"] for row in told["findings"] if row["status"] == "pass"} == {None}
    assert "1 passed" in run_pytest(project, "test_authored.py").stdout


def with_gap(artifact: Path, place: Path) -> None:
    """The artifact without the entries of the passes that changed its graph."""
    held = open_artifact(artifact, sha256_file(artifact))
    write_artifact(
        place,
        semantic_hash=held.semantic_hash,
        candidate_id=held.candidate_id,
        runtime=held.runtime,
        options=held.options,
        graph=held.graph,
        weights=held.weights,
        manifest=replace(held.manifest, entries=()),
    )


@pytest.mark.slow
def test_an_artifact_is_judged_with_its_manifest_and_a_gap_in_it_is_another_program(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, artifact = built_apart(
        "verified:mlp", "fx:cse,dce,fold-constants", "inference", [str(project)], project, DEFAULT_LIMITS
    )
    original = ["--reference", "verified:mlp"]
    code, told = verified(capsys, str(artifact), *original)
    assert (code, told["outcome"]) == (0, "admitted"), told
    with_gap(artifact, project / "gap.artifact")
    code, told = verified(capsys, "gap.artifact", *original)
    assert (code, told["outcome"]) == (12, "semantic_drift"), told
    assert "manifest_gap" in {row["what"] for row in told["findings"] if row["severity"] == "critical"}
    code, told = verified(capsys, str(artifact))
    assert code == 2
    assert "--reference" in told["error"]


@pytest.mark.slow
def test_a_pipeline_is_compiled_judged_and_authored_with_its_artifact_beside_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = verified(capsys, "verified:mlp", "--backend", "fx:dce,cse", "--author", "test_authored.py")
    assert (code, told["outcome"]) == (0, "admitted"), told
    assert (project / "authored.artifact").is_file()
    assert "1 passed" in run_pytest(project, "test_authored.py").stdout


@pytest.mark.slow
def test_an_exported_program_is_judged_against_its_own_module(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),), strict=False)
    torch.export.save(exported, project / "linear.pt2")
    code, told = verified(capsys, "linear.pt2")
    assert (code, told["outcome"]) == (0, "admitted"), told


@pytest.mark.slow
def test_inductor_s_code_for_a_module_is_judged(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = verified(capsys, "verified:mlp", "--backend", "inductor", "--mode", "training")
    assert (code, told["outcome"]) == (0, "admitted"), told


BAD = {
    "no such module": (["nowhere:mlp"], "nowhere"),
    "no such factory": (["verified:mpl"], "no function 'mpl'"),
    "no such file": (["nothing.artifact"], "nothing.artifact"),
    "no name at all": (["verified"], "names nothing that can be verified"),
    "an unknown level": (["verified:mlp", "--level", "thorough"], "quick, standard, full"),
    "an unknown mode": (["verified:mlp", "--mode", "trainig"], "inference, training"),
    "an unknown backend": (["verified:mlp", "--backend", "indcutor"], "inductor, aot_eager, eager"),
    "an unknown pass": (["verified:mlp", "--backend", "fx:dze"], "dze"),
    "no such contract": (["verified:mlp", "--contract", "nothing.yaml"], "nothing.yaml"),
    "no store": (["abcdef12"], ".tensorfarm"),
    "a backend for a file": (["nothing.pt2", "--backend", "eager"], "compiled already"),
    "a test that pytest would not collect": (["verified:mlp", "--author", "mine.py"], "test_NAME.py"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    arguments, words = BAD[name]
    assert cli.run(["verify", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert words in err
    assert "Traceback" not in err
