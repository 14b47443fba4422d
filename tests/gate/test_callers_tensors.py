"""What a caller hands over is handed on as it was: one tensor twice, hooks on parameters, numbers that JSON lacks."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tensorfarm.contract.exchange import CallRequest, SubjectRequest, TrialRequest, read_request, write_request
from tensorfarm.contract.outcome import Status
from tensorfarm.gate import Outcome, certify
from tensorfarm.gate.calling import CallReport
from tensorfarm.gate.copies import as_one, snapshot
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.reference import reference_of_module
from tensorfarm.gate.seal import Sealed
from tensorfarm.gate.witness import compiling


def test_a_tensor_that_is_given_twice_is_one_object_and_views_beside_each_other_are_two() -> None:
    base = torch.arange(6.0)
    given = snapshot({"left": base[:4], "right": base[:4], "beside": base[2:6], "alone": torch.arange(4.0)})
    leaves = as_one({**given, "number": 2})
    assert leaves["left"] is leaves["right"]
    assert leaves["beside"] is given["beside"]
    assert leaves["alone"] is given["alone"]
    assert leaves["number"] == 2


def test_a_leaf_that_wants_a_gradient_is_not_the_one_that_wants_none() -> None:
    base = torch.arange(4.0)
    given = snapshot({"left": base, "right": base})
    given["left"].requires_grad_()
    leaves = as_one(given)
    assert leaves["left"].requires_grad
    assert not leaves["right"].requires_grad


def test_different_views_of_one_memory_have_a_base_in_common_and_any_other_tensor_has_none() -> None:
    base = torch.arange(6.0)
    given = {"left": base[:4], "right": base[:4], "beside": base[2:6]}
    reference = reference_of_module(nn.Identity(), tuple(given.values()), {})
    inputs = {leaf.name: leaf.example for leaf in reference.leaves if leaf.example is not None}
    for wide in (False, True):
        left, right, beside = reference.arguments(inputs, {}, wide=wide).values()
        assert left is right
        assert left._base is beside._base is not None
        beside.add_(1)
        assert left.tolist() == [0, 1, 3, 4]
    for alone in (snapshot({"left": base, "right": base}), snapshot({"left": base[:4]})):
        assert all(value._base is None for value in alone.values())


def test_views_of_one_memory_are_leaves_that_may_want_a_gradient() -> None:
    base = torch.arange(6.0)
    left, right = (value.requires_grad_() for value in snapshot({"left": base[:4], "right": base[2:]}).values())
    assert left.is_leaf
    gradients = torch.autograd.grad((left * right * right).sum(), (left, right))
    assert [value.tolist() for value in gradients] == [[4, 9, 16, 25], [0, 6, 16, 30]]


class Writes(nn.Module):
    """One input is written to before another is read. ``stale``: that one is read before."""

    def __init__(self, stale: bool = False) -> None:
        super().__init__()
        self.stale = stale

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if self.stale:
            b = b.clone()
        a.add_(1)
        return b * 2


@pytest.mark.slow
@pytest.mark.parametrize(("stale", "outcome"), [(False, Outcome.ADMITTED), (True, Outcome.CONFORMANCE_FAILURE)])
def test_inductor_is_given_inputs_that_share_memory_as_a_caller_gives_them(stale: bool, outcome: Outcome) -> None:
    torch.compiler.reset()
    y = torch.linspace(-1, 1, 32).view(8, 4)
    compiled = torch.compile(Writes(stale))
    assert certify(Writes(), compiled, (y[:4], y[2:6]), level="quick").outcome is outcome


def hooked(factor: float) -> nn.Linear:
    torch.manual_seed(0)
    module = nn.Linear(3, 3)
    module.weight.register_hook(lambda gradient: gradient * factor)
    return module


@pytest.mark.parametrize(("factor", "outcome"), [(10.0, Outcome.ADMITTED), (9.0, Outcome.CONFORMANCE_FAILURE)])
def test_a_hook_on_a_parameter_is_the_originals_own(factor: float, outcome: Outcome) -> None:
    x = torch.linspace(-1, 1, 6).view(2, 3)
    assert certify(hooked(10.0), hooked(factor), (x,), mode="training", level="quick").outcome is outcome


def test_a_sparse_gradient_is_compared_by_its_values() -> None:
    def embedding(sparse: bool) -> nn.Embedding:
        torch.manual_seed(0)
        return nn.Embedding(6, 4, sparse=sparse)

    verdict = certify(embedding(True), embedding(False), (torch.tensor([0, 2, 2]),), mode="training", level="quick")
    assert verdict.outcome is Outcome.ADMITTED
    assert any(item.check_name == "gradient" and item.status is Status.PASS for item in verdict.findings)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.5])
def test_a_literal_reaches_the_subject_as_it_was(value: float, tmp_path: Path) -> None:
    leaf: Mapping[str, Any] = {"name": "args[0]", "literal": value, "requires_grad": False}
    trial = TrialRequest("example", (CallRequest(literals={"args[0]": value}),), ("main",))
    write_request(tmp_path, SubjectRequest({}, "inference", (leaf,), "", (trial,), {}))
    read = read_request(tmp_path)
    assert read.leaves[0]["literal"] == value
    assert read.trials[0].calls[0].literals["args[0]"] == value


def test_an_original_that_compiles_itself_is_no_witness_for_a_fault() -> None:
    report = CallReport(error="Sealed: a compiler is sealed", error_type=Sealed.__name__, stage="forward")
    (finding,) = compiling([Expectation(Observation({}, report))])
    assert (finding.check_name, finding.status) == ("witness", Status.NOT_RUN)
    assert compiling([Expectation(Observation({}, CallReport()))]) == []
