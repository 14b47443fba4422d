"""The sweep files that ship do what they say, and an exported program is swept like a factory's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.farm.app.sweep_file import read_sweep_file

ROOT = Path(__file__).resolve().parents[2]
EXPORTED = """
sweep: exported
contract: float32.yaml
mode: training
pipelines: ["fx:dce,cse"]
programs:
  - module: models/decoder.pt2
"""


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 8)
        self.head = torch.nn.Linear(8, 32)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.head(torch.nn.functional.gelu(self.table(tokens)))
        return logits, logits.argmax(-1)


def test_the_planted_sweep_ends_with_exactly_the_wrong_pass_as_conformance_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tensorfarm.farm", "sweep", str(ROOT / "configs" / "planted.yaml"), "--json"]
    environment = os.environ | {"TENSORFARM_BUILD_ROOT": str(tmp_path / "build")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 13, done.stderr
    cells = json.loads(done.stdout)["cells"]
    wrong = [cell for cell in cells if cell["outcome"] != "admitted"]
    assert [(cell["program"], cell["pipeline"], cell["outcome"]) for cell in wrong] == [
        ("gpt2", "fx:dce,cse,planted:WrongScale", "conformance_failure")
    ]
    assert "output 0[" in wrong[0]["message"]
    assert "times the limit" in wrong[0]["message"]
    assert sum(json.loads(done.stdout)["seconds"].values()) > 0


def test_the_quickstart_names_eight_programs_and_two_backends() -> None:
    config = read_sweep_file(ROOT / "configs" / "quickstart.yaml")
    assert len(config.programs) == 8
    assert {cell.backend for program in config.programs for cell in program.cells()} == {"fx", "inductor"}
    assert {program.mode for program in config.programs} == {"training"}


def test_an_exported_program_is_swept_and_approved_by_its_path(farm: Any) -> None:
    (farm.folder / "models").mkdir()
    tokens = torch.randint(0, 32, (2, 5), generator=torch.Generator().manual_seed(0))
    torch.export.save(torch.export.export(Decoder(), (tokens,)), farm.folder / "models" / "decoder.pt2")
    farm.write("exported.yaml", EXPORTED)
    assert farm("approve", "models/decoder.pt2").returncode == 0
    assert list(json.loads((farm.folder / "programs.lock").read_text())["programs"]) == ["models/decoder.pt2"]
    done = farm.sweep("exported.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["program"] for row in farm.report()] == ["decoder"]


@pytest.mark.slow
def test_the_quickstart_is_admitted_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tensorfarm.farm", "sweep", str(ROOT / "configs" / "quickstart.yaml"), "--json"]
    environment = os.environ | {"TENSORFARM_BUILD_ROOT": str(tmp_path / "build")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {cell["outcome"] for cell in json.loads(done.stdout)["cells"]} == {"admitted"}
