"""The fixture ``certify`` as a user's test suite has it: pytest in a process of its own, over a file of theirs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tensorfarm.gate import Outcome, Refusal, certify
from tensorfarm.gate.intake import subject_of

# Each test starts pytest again.
pytestmark = pytest.mark.slow

MODELS = """
import torch


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 8)

    def forward(self, x):
        return torch.tanh(self.up(x))


def mlp():
    torch.manual_seed(0)
    return Mlp(), (torch.randn(3, 4, generator=torch.Generator().manual_seed(1)),)


def shifted():
    module, inputs = mlp()
    module.register_forward_hook(lambda _module, _inputs, value: value + 1e-4)
    return module, inputs


def dies():
    import os
    os.abort()
"""
TESTS = """
import models
pytest_plugins = ["tensorfarm.gate.pytest_plugin"]


def test_the_same(certify):
    module, inputs = models.mlp()
    assert certify(module, module.forward, inputs).outcome == "admitted"


def test_another(certify):
    module, inputs = models.mlp()
    other, _ = models.shifted()
    certify(module, other, inputs, mode="inference")


def test_nothing(certify):
    module, _ = models.mlp()
    certify(module, module.forward)


def test_an_empty_contract(certify):
    module, inputs = models.mlp()
    certify(module, module.forward, inputs, contract={})


def test_a_contract_of_no_name(certify):
    module, inputs = models.mlp()
    certify(module, module.forward, inputs, contract="")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "test_mine.py").write_text(TESTS)
    return tmp_path


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """With this process's search path, and none of this repository's configuration."""
    isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    code = f"import sys; sys.path[:] = {[str(folder), *sys.path]!r}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "tensorfarm.gate.pytest_plugin", *options]
    return subprocess.run(
        [sys.executable, *isolation, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_fixture_fails_a_test_with_what_a_person_needs_and_without_a_traceback(project: Path) -> None:
    done = run_pytest(project, "--certify-level", "quick")
    assert "4 failed, 1 passed" in done.stdout
    for words in ("CRITICAL forward: output 0", "worst element [", "level quick", "pytest test_mine.py::test_another"):
        assert words in done.stdout
    assert "cannot be certified: there are no example inputs" in done.stdout
    assert done.stdout.count("cannot be certified: contract") >= 2
    assert "Traceback" not in done.stdout
    assert ".py:" not in done.stdout.partition("short test summary")[0].replace("test_mine.py:", "")


def test_an_unknown_level_or_contract_is_refused(project: Path) -> None:
    assert "invalid choice: 'thorough'" in run_pytest(project, "--certify-level", "thorough").stderr
    done = run_pytest(project, "-k", "same", "--certify-contract", "nothing.yaml")
    assert "cannot be certified: " in done.stdout
    assert "nothing.yaml" in done.stdout


def apart(project: Path, factory: str, **options: object) -> object:
    compiled = {"kind": "callable", "source": f"models:{factory}", "factory": True}
    return certify("models:mlp", compiled, level="quick", python_path=[project], **options)  # type: ignore[arg-type]


def test_import_strings_are_judged_in_processes_of_their_own(project: Path) -> None:
    verdict = apart(project, "shifted")
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE  # type: ignore[attr-defined]
    assert verdict.attestation["isolation"] == "process"  # type: ignore[attr-defined]
    assert "models" not in sys.modules


@pytest.mark.slow
def test_a_subject_that_dies_is_a_finding_that_names_the_signal(project: Path) -> None:
    assert "SIGABRT" in apart(project, "dies").message  # type: ignore[attr-defined]


def test_names_that_lead_nowhere_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    with pytest.raises(Refusal, match=r"models:mpl.*has no function 'mpl'"):
        certify("models:mpl", "models:shifted", level="quick", python_path=[tmp_path])
    with pytest.raises(Refusal, match="there is no file"):
        subject_of("nothing.artifact")
    with pytest.raises(Refusal, match="names nothing that can be judged"):
        subject_of("nothing")
    (tmp_path / "text.pt2").write_text("no zip")
    with pytest.raises(Refusal, match="no exported program"):
        subject_of(tmp_path / "text.pt2")
