"""``farm verify`` of what cannot be judged, or dies: one line or finding, its exit code, and nothing left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tensorfarm.contract.bundle import pack
from tensorfarm.farm import cli
from tensorfarm.gate.library import contract_fields

MODELS = """
import os
import random
import signal
import sys
import time

import torch


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def made(function):
    return Applied(function), (torch.linspace(-1, 1, 6).view(2, 3),)


def tanh():
    return made(torch.tanh)


def factory_raises():
    print("words that nobody asked for", file=sys.stderr)
    raise RuntimeError("no weights here")


def factory_leaves():
    print("the last words", file=sys.stderr, flush=True)
    os._exit(0)


def raises():
    def forward(x):
        raise ValueError("no such head")
    return made(forward)


def random_numbers():
    return made(lambda x: x * random.SystemRandom().random())


def dies(graph, inputs):
    def run(*arguments):
        print("the last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    return run


def leaves(graph, inputs):
    return lambda *arguments: os._exit(0)


def cannot(graph, inputs):
    raise NotImplementedError("no lowering for tanh")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the user's code, and a temporary folder in which nothing of ours may be left; torch makes one."""
    folder, scratch = tmp_path / "project", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    (folder / "misfits.py").write_text(MODELS)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TENSORFARM_BUILD_ROOT", str(tmp_path / "build"))
    yield folder
    assert [item.name for item in scratch.iterdir() if not item.name.startswith("torchinductor_")] == []
    assert not (folder / ".tensorfarm").exists()


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["verify", *arguments, "--level", "quick"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def refused(told: tuple[int, str, str], words: str, code: int = 2) -> None:
    assert (told[0], told[1]) == (code, "")
    (line,) = told[2].splitlines()
    assert words in line


def test_a_contract_with_a_typo_is_refused_before_anything_starts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = contract_fields("float32")
    fields["budgets"]["outptus"] = fields["budgets"].pop("outputs")
    (project / "typo.yaml").write_text(yaml.safe_dump(fields))
    refused(verified(capsys, "misfits:tanh", "--contract", "typo.yaml"), "outptus")


def test_a_factory_that_raises_is_refused_in_its_own_words(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "factory 'misfits:factory_raises' raised RuntimeError: no weights here; call it on its own and mend it"
    refused(verified(capsys, "misfits:factory_raises"), told)


@pytest.mark.parametrize(("what", "words"), [("", "'' names nothing"), (".", "'.' names nothing"), ("/", "'/' names")])
def test_what_names_nothing_is_refused_for_that(
    project: Path, capsys: pytest.CaptureFixture[str], what: str, words: str
) -> None:
    refused(verified(capsys, what), words)


HEADERS = {
    "no json": ("no json", "is no artifact as it was written"),
    "a list": ("[]", "has format None"),
    "fields that are missing": ('{"format": "tensorfarm.artifact/1"}', "has no semantic_hash, candidate_id"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_bundle_that_is_no_artifact_is_refused(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text, words = HEADERS[name]
    pack(project / "wrong.artifact", {"artifact.json": text.encode()})
    refused(verified(capsys, "wrong.artifact", "--reference", "misfits:tanh"), words)


@pytest.mark.parametrize("bytes_", [b"", b"no zip"])
@pytest.mark.parametrize("kind", ["artifact", "pt2"])
def test_a_file_that_is_empty_or_of_another_kind_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], kind: str, bytes_: bytes
) -> None:
    (project / f"wrong.{kind}").write_bytes(bytes_)
    refused(verified(capsys, f"wrong.{kind}", "--reference", "misfits:tanh"), f"wrong.{kind} is no")


@pytest.mark.slow
def test_a_factory_that_ends_its_process_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "the judge's step prepare ended without an answer: exit code 0; it last printed: the last words"
    refused(verified(capsys, "misfits:factory_leaves"), words)
    words = "compiling misfits:factory_leaves with fx:dce ended with exit code 0; it last printed: the last words"
    refused(verified(capsys, "misfits:factory_leaves", "--backend", "fx:dce"), words, code=11)


FOUND = {
    "raises": ("eager", 17, "undecided (not_run): witness: the original raises on the example inputs: ValueError"),
    "random_numbers": ("eager", 17, "undecided (not_run): witness: the original gives another output 0"),
    "tanh, dead": ("misfits:dies", 13, "trial example: SIGSEGV; it last printed: the last words"),
    "tanh, left": ("misfits:leaves", 13, "trial example: exit code 0, before it had answered"),
    "tanh, refused": ("misfits:cannot", 13, "backend='cannot' raised: NotImplementedError: no lowering for tanh"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_what_goes_wrong_is_one_finding_and_its_exit_code(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    backend, code, words = FOUND[name]
    done = verified(capsys, f"misfits:{name.partition(',')[0]}", "--backend", backend)
    assert (done[0], done[2]) == (code, "")
    assert words in done[1].splitlines()[1]
