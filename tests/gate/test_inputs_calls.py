"""Inputs of other dtypes, inputs that begin to alias between calls, and inputs that the contract does not declare."""

import pytest
import torch
from gate_settings import randn, setting_of, settings_of_any_leaves
from hypothesis import given, settings

from tensorfarm.gate.inputs import aliasing, promotion
from tensorfarm.gate.inputs.outside import outside_declared
from tensorfarm.gate.inputs.refill import floats
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Depth


def pointer(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


def test_one_floating_leaf_at_a_time_gets_each_other_dtype() -> None:
    x = randn(3, 4).requires_grad_()
    setting = setting_of({"x": x, "y": randn(3, 4), "ids": torch.arange(3)}, guarded=True)
    trials = {trial.name: trial for trial in promotion.trials(setting)}
    halves = trials.pop("dtype:halves").calls[0].inputs
    assert {name: value.dtype for name, value in halves.items()} == {
        "x": torch.float16, "y": torch.bfloat16, "ids": torch.int64,
    }  # fmt: skip
    kinds = ["float16", "bfloat16", "float64", "int32", "bool", "zero_dim"]
    assert list(trials) == [f"dtype:{leaf}:{kind}" for leaf in ("x", "y") for kind in kinds]
    for name, trial in trials.items():
        _, leaf, kind = name.split(":")
        inputs = trial.calls[0].inputs
        assert trial.depth is Depth.EAGER
        for other in inputs.keys() - {leaf}:
            assert torch.equal(inputs[other], setting.tensors[other])
        if kind == "zero_dim":
            assert inputs[leaf].shape == ()
            assert inputs[leaf].item() == setting.tensors[leaf][0, 0].item()
        else:
            assert inputs[leaf].dtype == getattr(torch, kind)
            assert inputs[leaf].shape == (3, 4)
        assert inputs["x"].requires_grad == inputs["x"].is_floating_point()


def test_a_subject_made_for_its_examples_dtypes_is_asked_for_no_other() -> None:
    assert promotion.trials(setting_of({"x": randn(3)})) == []


@settings(max_examples=40, deadline=None)
@given(settings_of_any_leaves())
def test_no_trial_holds_a_storage_of_the_example(setting: Setting) -> None:
    guarded = setting_of(setting.tensors, guarded=True)
    owned = {pointer(value) for value in setting.tensors.values()} - {0}
    for trial in promotion.trials(guarded) + aliasing.trials(guarded):
        for call in trial.calls:
            assert list(call.inputs) == list(setting.tensors)
            assert not owned & {pointer(value) for value in call.inputs.values()}
    for trial in promotion.trials(guarded):
        assert trial.name.split(":")[1] in (*floats(setting), "halves")


def test_two_leaves_are_apart_then_one_then_apart() -> None:
    setting = setting_of({"a": randn(3, 4), "b": randn(3, 4) + 1, "c": randn(4, 3)}, guarded=True)
    assert aliasing.pairs(setting) == [("a", "b")]
    trials = {trial.name: trial for trial in aliasing.trials(setting)}
    assert list(trials) == ["alias:same:a:b", "alias:overlap:a:b"]
    for name, trial in trials.items():
        before, together, after = (call.inputs for call in trial.calls)
        for apart in (before, after):
            assert pointer(apart["a"]) != pointer(apart["b"])
            assert all(torch.equal(apart[leaf], setting.tensors[leaf]) for leaf in apart)
        assert pointer(together["a"]) == pointer(together["b"])
        assert torch.equal(together["a"], setting.tensors["a"])
        shift = 1 if "overlap" in name else 0
        assert together["b"].storage_offset() - together["a"].storage_offset() == shift
        with torch.no_grad():
            together["a"][0, 1] = 99.0
        assert 99.0 in together["b"].flatten()


def test_leaves_that_alias_already_are_no_pair_and_every_pair_is_tried() -> None:
    x = randn(3, 4)
    assert aliasing.pairs(setting_of({"x": x, "same": x[:]})) == []
    many = {name: randn(3) for name in "abc"} | {"i": torch.arange(3), "j": torch.arange(3)}
    assert aliasing.pairs(setting_of(many)) == [("a", "b"), ("b", "c"), ("i", "j")]
    assert len(aliasing.trials(setting_of(many))) == 6


def test_inputs_inside_the_contract_are_not_mentioned() -> None:
    inputs = {"x": randn(3), "nan": torch.tensor([torch.nan]), "ids": torch.arange(3), "no": torch.zeros(0)}
    changes = {"numerics.dtypes.inputs": "float32", "inputs.ranges.floating": [-9, 9], "inputs.ranges.integer": [0, 2]}
    assert outside_declared(setting_of({**inputs, "flag": torch.tensor([True])}, changes)) == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            randn(2, dtype=torch.float64),
            "input x is float64; contract test declares float32 inputs; give a contract for float64",
        ),
        (
            torch.tensor([[0.0, 1.0], [2.0, 10.0]]),
            "input x is 10 at [1, 1]; contract test declares floating inputs from -9 to 9",
        ),
        (torch.tensor([0, -1]), "input x is -1 at [1]; contract test declares integer inputs from 0 to 2"),
        (torch.tensor(10j), "input x is 10 at [1]; contract test declares floating inputs from -9 to 9"),
        (torch.zeros(2).to_sparse(), "input x is sparse_coo; contract test is about strided tensors"),
    ],
)
def test_an_input_outside_the_contract_is_told_in_a_sentence(value: torch.Tensor, sentence: str) -> None:
    changes = {"numerics.dtypes.inputs": "float32", "inputs.ranges.floating": [-9, 9], "inputs.ranges.integer": [0, 2]}
    assert outside_declared(setting_of({"x": value}, changes)) == [sentence]
