"""Bad input gets one line, the right exit code, and leaves nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

GOOD = """
sweep: one
contract: float32.yaml
python_path: [.]
pipelines: ["fx:dce"]
programs:
  - module: small_models:mlp
"""


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    assert done.returncode == code, (done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


CHANGES = {
    "a misspelt field": (("pipelines:", "pipeline:"), ("pipeline",)),
    "an unknown mode": (("sweep: one", "sweep: one\nmode: trainig"), ("trainig", "training")),
    "no programs": (("programs:\n  - module: small_models:mlp", "programs: []"), ("programs",)),
    "a missing contract": (("float32.yaml", "float23.yaml"), ("float23.yaml",)),
    "an unknown pass": (("fx:dce", "fx:dze"), ("dze", "dce")),
    "an unknown backend": (("fx:dce", "gx:dce"), ("gx", "inductor")),
    "a user's pass that is not there": (("fx:dce", "fx:bad_passes:Nope"), ("bad_passes:Nope",)),
    "a backend's option that is not there": (("fx:dce", "inductor{mode=fast}"), ("mode=fast", "mode=default")),
    "a pass before inductor": (("fx:dce", "inductor:dce"), ("dce", "fx")),
    "a pipeline that does not parse": (("fx:dce", "fx:dce{limit"), ("position",)),
    "no YAML": (("sweep: one", "sweep: [one"), ("YAML",)),
    "a missing export file": (("small_models:mlp", "nothing.pt2"), ("nothing.pt2",)),
    "a module without a factory": (("small_models:mlp", "small_models"), ("package.module:factory",)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_bad_sweep_file_is_refused_in_one_line(farm: Any, name: str) -> None:
    (old, new), words = CHANGES[name]
    assert old in GOOD
    farm.write("bad.yaml", GOOD.replace(old, new))
    refused(farm.sweep("bad.yaml"), *words)
    assert not list((farm.folder / "store" / "artifacts").glob("*"))


def test_a_sweep_file_that_is_not_there_or_unreadable_is_refused(farm: Any) -> None:
    refused(farm.sweep("nothing.yaml"), "nothing.yaml")
    (farm.folder / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    refused(farm.sweep("binary.yaml"), "binary.yaml")
    assert not farm.store.exists()


def test_a_misspelt_contract_field_is_named(farm: Any) -> None:
    contract = farm.folder / "float32.yaml"
    contract.write_text(contract.read_text().replace("gradients:", "gradient:", 1))
    farm.write("one.yaml", GOOD)
    refused(farm.sweep("one.yaml"), "gradient")


def test_a_ray_address_that_does_not_answer_is_refused(farm: Any) -> None:
    farm.write("one.yaml", GOOD)
    refused(farm.sweep("one.yaml", "--address", "127.0.0.1:1"), "127.0.0.1:1")


FAULTY = {
    "small_models:mpl": ("no function 'mpl'", "it offers"),
    "smal_models:mlp": ("no module named 'smal_models'", "python_path"),
    "small_models:junk": ("returned int", "return (module"),
    "small_models:branches": ("cannot be captured", "control flow"),
}


def test_programs_that_are_not_there_or_cannot_be_captured_end_and_the_others_go_on(farm: Any) -> None:
    lines = [f"  - {{module: {module}, name: faulty{number}}}" for number, module in enumerate(FAULTY)]
    farm.write("some.yaml", GOOD + "\n".join(lines) + "\n")
    done = farm.sweep("some.yaml")
    assert done.returncode == 10, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    rows = {row["program"]: row for row in farm.report()}
    assert rows.pop("mlp")["outcome"] == "admitted"
    for row, words in zip(rows.values(), FAULTY.values(), strict=True):
        assert row["outcome"] == "structural_rejection"
        assert all(word in row["message"] for word in words), row["message"]


def test_a_lock_that_is_named_must_be_there_and_readable(farm: Any) -> None:
    farm.write("one.yaml", GOOD)
    refused(farm.sweep("one.yaml", "--lock", "programz.lock"), "programz.lock", "approve")
    farm.write("programs.lock", "{}")
    refused(farm.sweep("one.yaml"), "programs.lock")


def test_a_changed_program_is_refused_with_the_first_difference(farm: Any) -> None:
    farm.write("one.yaml", GOOD)
    approved = farm("approve", "small_models:mlp")
    assert approved.returncode == 0, approved.stderr
    models = farm.folder / "small_models.py"
    models.write_text(models.read_text().replace("torch.tanh(self.up(x)) * 0.5", "torch.tanh(self.up(x)) * 0.25"))
    (farm.folder / "elsewhere").mkdir()
    done = farm("sweep", "../one.yaml", "--store", "../store", folder="elsewhere")
    assert done.returncode == 12, done.stderr
    row = farm.report()[0]
    assert row["outcome"] == "semantic_drift"
    assert float.hex(0.5) in row["message"]
    assert float.hex(0.25) in row["message"]
    assert farm.query("select count(*) as n from events where type = 'CandidateCompiled'") == [{"n": 0}]


def test_an_approved_program_that_did_not_change_is_swept(farm: Any) -> None:
    farm.write("one.yaml", GOOD)
    assert farm("approve", "small_models:mlp").returncode == 0
    assert farm.sweep("one.yaml").returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if os.geteuid() != 0 or mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_is_refused_before_anything_is_written(farm: Any, small_disk: Path) -> None:
    farm.write("one.yaml", GOOD)
    refused(farm("sweep", "one.yaml", "--store", str(small_disk / "store")), "GiB")
    assert not any(small_disk.iterdir())


def test_sql_that_fails_and_a_store_that_is_not_there_are_refused(farm: Any) -> None:
    refused(farm("query", "select 1", "--store", "store"), "store")
    refused(farm("report", "sweep", "--store", "store"), "store")


def test_the_doctor_finds_nothing_wrong_here_and_a_missing_compiler_elsewhere(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert farm("doctor", "--store", "store").returncode == 0
    assert shutil.which("no-such-compiler") is None
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = farm("doctor", "--store", "store")
    assert done.returncode == 2
    assert "apt-get install" in done.stdout
