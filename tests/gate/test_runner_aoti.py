"""An AOTInductor package is native code that is loaded and called without a compiler."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gate_runners import Runners, artifact, shared
from gate_subjects import expected, x

from tensorfarm.contract.capture import capture
from tensorfarm.contract.program import Program
from tensorfarm.gate import Outcome, Status, certify

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "gate_subjects.py"

_BUILD = """
import torch, gate_subjects
for name in ("small", "wrong_small", "counted", "remembering_one", "remembering_each"):
    torch.manual_seed(0)
    module, example = getattr(gate_subjects, name)()
    with torch.no_grad():
        exported = torch.export.export(module, example)
    torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/{name}.pt2")
"""
_ALONE = """
import json, torch
from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.gate.subject.load import load
leaves = ({"name": "x", "literal": None}, {"name": "scale", "literal": 2.0})
request = SubjectRequest({}, "inference", leaves, "", (), {})
loaded = load({"kind": "aoti", "path": f"{folder}/small.pt2"}, request)
loaded.call({"x": torch.ones(2, 4), "scale": 2.0})
print(json.dumps(sorted(name for name in sys.modules if name.startswith(("torch._inductor", "torch._dynamo")))))
"""


def _python(code: str, folder: Path) -> str:
    isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    start = f"import sys; sys.path[:] = {sys.path!r}; folder = {str(folder)!r}\n"
    command = [sys.executable, *isolation, "-W", "ignore", "-c", start + code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    _python(_BUILD, folder)
    return folder


@pytest.fixture(scope="module")
def runners() -> Runners:
    return shared()


@pytest.fixture(scope="module")
def program() -> Program:
    torch.manual_seed(0)
    return capture(f"{SOURCE}:counted")


def test_a_package_is_called_by_its_leaves(runners: Runners, packages: Path) -> None:
    ran = runners.ran({"kind": "aoti", "path": str(packages / "small.pt2")}, (x(), 2.0), trials=("example", "again"))
    (wanted,) = expected((x(), 2.0))
    assert torch.allclose(ran.output(), wanted)
    assert torch.equal(ran.output(trial="again"), ran.output())
    assert ran.report is not None
    assert ran.report.calls["example"][0].structure == "builtins.dict['y', 'total'](*, *)"
    wrong = runners.ran({"kind": "aoti", "path": str(packages / "wrong_small.pt2")}, (x(), 2.0))
    assert not torch.allclose(wrong.output(), wanted)


def test_loading_and_calling_a_package_imports_no_compiler(packages: Path) -> None:
    assert json.loads(_python(_ALONE, packages)) == []


def test_what_a_package_was_not_built_for_is_refused_and_not_read(runners: Runners, packages: Path) -> None:
    subject = {"kind": "aoti", "path": str(packages / "small.pt2")}
    assert "unmatched dim value at 0, expected: 2, but got: 1" in runners.ran(subject, (x()[:1], 2.0)).error()
    assert "unmatched stride value" in runners.ran(subject, (x().t().contiguous().t(), 2.0)).error()
    assert "it was built for 2.0" in runners.ran(subject, (x(), 2.0), (x(), 3.0)).error(call=1)


def test_an_artifact_s_package_computes_with_the_artifact_s_weights_and_writes_its_buffers(
    runners: Runners, packages: Path, program: Program, tmp_path: Path
) -> None:
    held = artifact(program, tmp_path / "right", "aoti", model_pt2=packages / "counted.pt2")
    ran = runners.ran(held, (x(), 2.0), (x(), 2.0), trials=("example", "again"))
    assert torch.allclose(ran.output(), expected((x(), 2.0))[0])
    assert [ran.tensors[f"again|{call}|buffer:calls"].unique().tolist() for call in (0, 1)] == [[1], [2]]
    (weight,) = [weight for weight in program.graph.weights.values() if weight.target == "linear.weight"]
    others = {**program.weights, weight.name: torch.zeros(3, 4)}
    held = artifact(replace(program, weights=others), tmp_path / "wrong", "aoti", model_pt2=packages / "counted.pt2")
    assert not torch.allclose(runners.ran(held, (x(), 2.0)).output(), expected((x(), 2.0))[0])


def test_a_package_that_forgets_what_it_wrote_is_found_by_its_later_answers(packages: Path) -> None:
    """torch 2.13 reads a buffer of one element as what it was when the package was loaded."""
    verdict = certify(f"{SOURCE}:remembering_one", packages / "remembering_one.pt2")
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE, verdict.message
    assert {finding.status for finding in verdict.of_check("second_call")} >= {Status.FAIL}
    assert "output 0" in verdict.message


def test_a_package_that_keeps_its_state_to_itself_is_admitted_for_its_later_answers(packages: Path) -> None:
    source, package = f"{SOURCE}:remembering_each", packages / "remembering_each.pt2"
    verdict = certify(source, package)
    assert verdict.outcome is Outcome.ADMITTED, verdict.message
    once = certify(source, package, level="quick")
    assert once.outcome is Outcome.UNDECIDED
    assert "ask for later answers" in once.message
