"""What is judged before values are: an artifact's identity, its manifest's chain, a subject's report; and the changes
that are made to modules between calls."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gate_workshop import Workshop, node_called, program, with_node
from torch import nn

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.exchange import CallReport, SubjectReport
from tensorfarm.contract.ir_contract import STRICT
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import between
from tensorfarm.gate.aliases import aliases
from tensorfarm.gate.checks import identity, loading, manifest
from tensorfarm.gate.process_state import process_state

# Real compilations, one after another.
pytestmark = pytest.mark.slow


@pytest.fixture
def changed(workshop: Workshop) -> Artifact:
    """An artifact whose one pass changed the graph, and says so."""
    mlp = program("mlp")
    subtraction = node_called(mlp.graph, "aten.sub.Tensor")
    graph = with_node(mlp.graph, subtraction.name, args=subtraction.args[::-1])
    place = workshop.artifact(mlp, graph)
    return open_artifact(place, sha256_file(place))


@pytest.fixture
def plain(workshop: Workshop) -> Artifact:
    place = workshop.artifact(program("mlp"))
    return open_artifact(place, sha256_file(place))


def test_a_pass_that_changed_the_graph_and_left_no_entry_is_a_manifest_gap(changed: Artifact) -> None:
    mlp = program("mlp")
    assert [item.status for item in manifest.check(mlp, changed)] == [Status.PASS]
    silent = replace(changed, manifest=replace(changed.manifest, entries=()))
    assert [item.what for item in manifest.check(mlp, silent)] == ["manifest_gap"]
    assert [item.what for item in manifest.check(mlp, manifest.canary(changed))] == ["manifest_gap"]


def test_canaries_of_identity_and_of_an_unchanged_manifest_are_found(plain: Artifact) -> None:
    mlp = program("mlp")
    for check, said in (
        (manifest, lambda held: manifest.check(mlp, held)),
        (identity, lambda held: identity.check(mlp, held, STRICT)),
    ):
        assert {item.status for item in said(plain)} == {Status.PASS}
        assert Status.FAIL in {item.status for item in said(check.canary(plain))}


@pytest.mark.parametrize(
    ("report", "death", "kind"),
    [
        (None, {"kind": "signal", "message": "SIGSEGV"}, "crash"),
        (None, {"kind": "timeout", "message": "no answer"}, "timeout"),
        (None, None, "crash"),
        (SubjectReport(error="RuntimeError: no"), None, "error"),
    ],
)
def test_a_subject_that_gave_no_values_says_what_it_died_of(
    report: SubjectReport | None, death: dict[str, str] | None, kind: str
) -> None:
    finding, told = loading.check(None, report, death, "")
    assert (finding.status, told) == (Status.FAIL, kind)
    assert death is None or death["message"] in finding.message


def test_a_subject_that_is_no_artifact_may_compile_and_an_artifact_may_not(plain: Artifact) -> None:
    report = SubjectReport(
        artifact_sha256=plain.sha256, evidence={"fxgraph_cache_miss": 1}, calls={"example": (CallReport(),)}
    )
    assert loading.check(None, report, None, "")[0].status is Status.PASS
    finding, kind = loading.check(plain, report, None, "")
    assert (finding.status, kind) == (Status.FAIL, "recompile")
    assert loading.check(None, loading.canary(report), None, "")[0].status is Status.FAIL


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.rate, self.eps = 0.5, 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) * self.rate / (1 + self.eps)


@pytest.mark.parametrize("name", list(between.CHANGES))
def test_every_change_moves_the_output_and_moves_a_float64_module_alike(name: str) -> None:
    torch.manual_seed(0)
    module, x = Tied(), torch.randn(4, 3)
    wide = Tied()
    wide.load_state_dict(module.state_dict())
    wide.double()
    before = module(x)
    between.apply(module, name, 1)
    between.apply(wide, name, 1)
    assert not torch.allclose(before, module(x))
    torch.testing.assert_close(module(x), wide(x.double()).float())


def test_swapped_parameters_are_other_objects_and_stay_tied() -> None:
    module = Tied()
    old = module.first.weight
    between.apply(module, "swap_parameters", 1)
    assert module.first.weight is module.second.weight
    assert module.first.weight is not old


def test_a_change_may_be_a_function_of_the_users_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "changes.py"
    place.write_text("def slower(module, step):\n    module.rate = 0.1 * step\n")
    module = Tied()
    between.apply(module, f"{place}:slower", 3)
    assert module.rate == pytest.approx(0.3)
    for name in ("swap_everything", f"{place}:faster", "no_such_module:function"):
        with pytest.raises(Refusal):
            between.apply(module, name, 1)


def test_views_of_one_storage_are_aliases_and_empty_tensors_are_not() -> None:
    base = torch.zeros(6)
    tensors = {"output:0": base[4:], "input:x": base[:2], "input:y": torch.zeros(6), "input:e": torch.zeros(0)}
    assert aliases({**tensors, "input:f": torch.zeros(0)}) == (("input:x", "output:0"),)


def test_looking_at_the_process_state_changes_nothing() -> None:
    assert process_state() == process_state()
    torch.rand(1)
    moved = process_state()
    assert moved["rounding"] == "nearest"
    assert moved["subnormals_torch"]
    assert moved["subnormals_numpy"]
