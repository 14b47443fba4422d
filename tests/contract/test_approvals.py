"""Approvals, refusals and the files between judge and subject."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tensorfarm.contract.approve import Approvals
from tensorfarm.contract.bundle import CorruptBundle
from tensorfarm.contract.exchange import (
    REPORT,
    CallReport,
    CallRequest,
    SubjectReport,
    SubjectRequest,
    TrialRequest,
    read_report,
    read_request,
    write_report,
    write_request,
)
from tensorfarm.contract.graph import Graph, IllegalGraph, Input, Node, Output, OutputKind, Ref, TensorSpec
from tensorfarm.contract.identity import input_spec_id, mint_semantic_hash
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal

SOURCE = "my.models:factory"


def program(scale: float, source: str = SOURCE) -> Program:
    spec = TensorSpec(torch.float32, (2,), (1,))
    node = Node("scaled", "aten.mul.Scalar", (Ref("x"), scale), (), (spec,), origins=("scaled",))
    graph = Graph((Input("x", spec),), {}, {"scaled": node}, (Output(OutputKind.USER, Ref("scaled")),))
    return Program(source, mint_semantic_hash(graph), input_spec_id(graph), graph, {}, {}, "", "", "")


@pytest.fixture
def approvals(tmp_path: Path) -> Approvals:
    return Approvals(tmp_path / "programs.lock")


def _refusal(approvals: Approvals, seen: Program) -> str | None:
    return approvals.refusal(seen.source, seen.semantic_hash, seen.canonical)


def test_without_a_lock_nothing_is_refused(approvals: Approvals) -> None:
    assert approvals.hashes() == {}
    assert _refusal(approvals, program(1.0)) is None


def test_an_approved_program_is_let_through_and_others_are_none_of_its_business(approvals: Approvals) -> None:
    assert approvals.approve(SOURCE, program(1.0)) is None
    assert approvals.hashes() == {SOURCE: program(1.0).semantic_hash}
    assert _refusal(approvals, program(1.0)) is None
    assert _refusal(approvals, program(2.0, "my.models:other")) is None


def test_a_changed_program_is_refused_with_the_first_difference(approvals: Approvals) -> None:
    approvals.approve(SOURCE, program(1.0))
    refusal = _refusal(approvals, program(1.5))
    assert refusal is not None
    assert "line 3: approved '%1 = aten.mul.Scalar(self=%0, other=float:0x1.0000000000000p+0)" in refusal
    assert "captured '%1 = aten.mul.Scalar(self=%0, other=float:0x1.8000000000000p+0)" in refusal
    assert f'run "farm approve {SOURCE}"' in refusal
    assert "\n" not in refusal


def test_an_output_more_is_shown_as_the_line_that_only_one_has(approvals: Approvals) -> None:
    approvals.approve(SOURCE, program(1.0))
    graph = program(1.0).graph
    graph.outputs = (*graph.outputs, Output(OutputKind.USER, 3))
    more = replace(program(1.0), graph=graph, semantic_hash=mint_semantic_hash(graph))
    assert "line 5: only the captured program has 'user 3'" in str(_refusal(approvals, more))


def test_swapped_keys_of_the_outputs_are_shown(approvals: Approvals) -> None:
    one, other = (
        replace(
            program(1.0),
            returns=f"builtins.dict{keys}(*, *)",
            semantic_hash=mint_semantic_hash(program(1.0).graph, "", f"builtins.dict{keys}(*, *)"),
        )
        for keys in (["loss", "logits"], ["logits", "loss"])
    )
    approvals.approve(SOURCE, one)
    refusal = str(_refusal(approvals, other))
    assert "line 5: approved \"returns builtins.dict['loss', 'logits'](*, *)\"" in refusal
    assert "captured \"returns builtins.dict['logits', 'loss'](*, *)\"" in refusal


def test_a_missing_text_is_said_and_the_program_still_refused(approvals: Approvals) -> None:
    approvals.approve(SOURCE, program(1.0))
    for text in approvals.path.with_name("programs.lock.d").iterdir():
        text.unlink()
    assert "its text is missing" in str(_refusal(approvals, program(1.5)))


def test_approving_again_gives_the_hash_it_replaces_and_keeps_the_others(approvals: Approvals) -> None:
    approvals.approve(SOURCE, program(1.0))
    approvals.approve("my.models:other", program(3.0, "my.models:other"))
    assert approvals.approve(SOURCE, program(2.0)) == program(1.0).semantic_hash
    assert approvals.hashes().keys() == {SOURCE, "my.models:other"}
    assert _refusal(approvals, program(2.0)) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "tensorfarm.lock/9", "programs": {}}', "\x00"])
def test_a_file_that_is_no_lock_is_refused(approvals: Approvals, content: str) -> None:
    approvals.path.write_text(content)
    with pytest.raises(Refusal, match=r"is no lock file.*tensorfarm.lock/1"):
        approvals.hashes()


def test_a_request_and_a_report_come_back(tmp_path: Path) -> None:
    calls = (CallRequest("vjp", (0, 2), "swap_parameters", 3, {"scale": 0.5}), CallRequest())
    request = SubjectRequest(
        {"kind": "artifact", "sha256": "sha"},
        "training",
        ({"name": "x", "literal": None, "requires_grad": True},),
        "spec",
        (TrialRequest("example", calls, ("main", "cpu-avx2"), "identity"),),
        {"main": {"device": "cpu", "threads": 2}},
    )
    write_request(tmp_path, request)
    assert read_request(tmp_path) == request
    assert read_report(tmp_path) is None
    call = CallReport("it raised", "ValueError", "backward", "*", {"1": 3}, {"0": True}, aliases=(("a", "b"),))
    report = SubjectReport("", "sha", {"misses": 0}, {"example": (call, CallReport())}, 0.5)
    write_report(tmp_path, report)
    assert read_report(tmp_path) == report


@pytest.mark.parametrize("content", ['{"artifact_sha256": "x"', '{"invented": 1}', "[]", "3"])
def test_a_malformed_report_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / REPORT).write_text(content)
    with pytest.raises(Refusal, match="report is malformed"):
        read_report(tmp_path)


@pytest.mark.parametrize(
    "error",
    [Refusal("f", limit="l", next_step="n", exit_code=12), IllegalGraph("f", next_step="n"), CorruptBundle("f")],
)
def test_a_refusal_crosses_a_process_boundary_whole(error: Refusal) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    # Across processes that share no pickle, a damaged file is told from other refusals by these names.
    assert {kind.__name__ for kind in type(back).__mro__} >= {type(error).__name__, "Refusal"}


def test_a_refusal_is_one_line_of_fact_limit_and_next_step() -> None:
    assert str(Refusal("it is 9 days old", limit="limit 7", next_step="run it")) == "it is 9 days old (limit 7); run it"
    assert str(Refusal("it is old")) == "it is old"
