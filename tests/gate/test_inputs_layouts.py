"""The same values elsewhere in memory: layouts, and what lies around an input that must not be read."""

import pytest
import torch
from gate_settings import FLOATING, at_level, randn, setting_of, settings_of_any_leaves, tensors
from hypothesis import given, settings

from tensorfarm.contract.tensors import storage_sha256
from tensorfarm.gate.inputs import layouts, poison
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Derivative

EVERY_LAYOUT = {"layout.inputs": list(layouts.LAYOUTS)}


def named(setting: Setting, name: str) -> torch.Tensor:
    trial = next(trial for trial in layouts.trials(setting) if trial.name == f"layout:{name}")
    assert trial.layout == name
    return trial.calls[0].inputs["x"]


@settings(max_examples=60, deadline=None)
@given(settings_of_any_leaves())
def test_layouts_hold_the_examples_values(setting: Setting) -> None:
    owned = {value.untyped_storage().data_ptr() for value in setting.tensors.values()} - {0}
    for trial in layouts.trials(setting):
        assert len(trial.calls) == 1
        inputs = trial.calls[0].inputs
        assert list(inputs) == list(setting.tensors)
        for name, wanted in setting.tensors.items():
            assert (inputs[name].shape, inputs[name].dtype) == (wanted.shape, wanted.dtype)
            assert inputs[name].requires_grad == wanted.requires_grad
            assert inputs[name].untyped_storage().data_ptr() not in owned
            if trial.layout != layouts.EXPANDED:
                assert torch.equal(inputs[name], wanted)
        assert trial.depth is (Depth.BUDGET if trial.layout == layouts.EXPANDED else Depth.EAGER)
        assert trial.suite == (layouts.EXPANDED if trial.layout == layouts.EXPANDED else "example")


def test_each_layout_is_what_it_is_called() -> None:
    setting = setting_of({"x": randn(3, 4, 5, 6).mT}, EVERY_LAYOUT)
    assert named(setting, "contiguous").is_contiguous()
    assert named(setting, "channels_last").is_contiguous(memory_format=torch.channels_last)
    assert named(setting, "sliced_step").stride(-1) == 2
    assert named(setting, "nonzero_offset").storage_offset() * 4 % 64 == 0
    assert named(setting, "nonzero_offset").storage_offset() > 0
    assert named(setting, "misaligned_offset_1_elem").storage_offset() == 1
    assert named(setting, "misaligned_offset_1_elem").stride() == setting.tensors["x"].stride()
    expanded = named(setting, "expanded_stride0")
    assert expanded.stride(0) == 0
    assert torch.equal(expanded[2], setting.tensors["x"][0])
    transposed = named(setting_of({"x": randn(3, 4)}, EVERY_LAYOUT), "transposed")
    assert transposed.stride() == (1, 3)


def test_a_kernel_with_the_examples_strides_is_wrong_in_another_layout() -> None:
    setting = setting_of({"x": randn(5, 6)}, EVERY_LAYOUT)
    for name in ("transposed", "sliced_step", "nonzero_offset", "misaligned_offset_1_elem"):
        x = named(setting, name)
        assert not torch.equal(torch.as_strided(x, (5, 6), (6, 1), 0), x)


def test_a_layout_that_the_example_has_or_cannot_have_is_not_tried() -> None:
    names = {trial.name for trial in layouts.trials(setting_of({"x": randn(5, 6)}, EVERY_LAYOUT))}
    assert "layout:contiguous" not in names
    assert "layout:channels_last" not in names
    assert layouts.trials(setting_of({"x": torch.tensor(1.0)}, {"layout.inputs": ["transposed"]})) == []


def test_only_the_full_level_takes_one_leaf_at_a_time() -> None:
    full = setting_of({"x": randn(5, 6), "ids": torch.arange(6).view(2, 3)}, EVERY_LAYOUT)
    one = next(trial for trial in layouts.trials(full) if trial.name == "layout:transposed:ids")
    assert one.calls[0].inputs["x"].is_contiguous()
    assert not one.calls[0].inputs["ids"].is_contiguous()
    standard = layouts.trials(at_level(full, Level.STANDARD))
    assert all(trial.name.count(":") == 1 for trial in standard)
    assert all(not value.is_contiguous() for value in standard[0].calls[0].inputs.values())


def test_leaves_that_share_a_storage_go_on_sharing_it() -> None:
    x = randn(6, 4)
    for trial in layouts.trials(setting_of({"x": x, "rest": x[1:], "y": randn(3, 3)}, EVERY_LAYOUT)):
        inputs = trial.calls[0].inputs
        assert inputs["x"].untyped_storage().data_ptr() == inputs["rest"].untyped_storage().data_ptr()


@settings(max_examples=60, deadline=None)
@given(tensors(FLOATING))
def test_poisoned_and_clean_twins_differ_only_where_nothing_is_to_be_read(value: torch.Tensor) -> None:
    setting = setting_of({"x": value})
    found = poison.pairs(setting)
    assert len(found) == (4 if value.numel() else 0)
    for poisoned, clean in found:
        assert poisoned.depth is clean.depth is Depth.ITSELF
        left, right = poisoned.calls[0].inputs["x"], clean.calls[0].inputs["x"]
        assert torch.equal(left, right)
        assert torch.equal(left, value)
        assert (left.stride(), left.requires_grad) == (right.stride(), value.requires_grad)
        assert storage_sha256(left) != storage_sha256(right)
        if poisoned.name.startswith("guard") and not left.is_contiguous():
            assert left.stride() == value.stride()


@pytest.mark.parametrize(("name", "reach"), [("poison:nan", 6), ("guard:nan", 6)])
def test_reading_one_element_too_far_meets_poison(name: str, reach: int) -> None:
    poisoned, clean = next(pair for pair in poison.pairs(setting_of({"x": randn(4, 5)})) if pair[0].name == name)
    sums: list[float] = []
    for trial in (poisoned, clean):
        x = trial.calls[0].inputs["x"]
        sums.append(float(torch.as_strided(x, (reach,), (x.stride(1),), x.storage_offset() + 3 * x.stride(0)).sum()))
    assert sums[0] != sums[0]
    assert sums[1] == pytest.approx(float(clean.calls[0].inputs["x"][3].sum()))


def test_below_the_full_level_layouts_hold_the_poison_and_ask_for_other_cotangents_in_passing() -> None:
    setting = setting_of({"x": randn(4, 5)}, EVERY_LAYOUT, level=Level.STANDARD, mode="training")
    assert poison.trials(setting) == []
    calls = {trial.layout: trial.calls[0] for trial in layouts.trials(setting)}
    for layout in (layouts.GAPS, layouts.OFFSET, "misaligned_offset_1_elem"):
        memory = torch.empty(0).set_(calls[layout].inputs["x"].untyped_storage())
        assert torch.isnan(memory).sum() == memory.numel() - 20
        assert torch.equal(calls[layout].inputs["x"], setting.tensors["x"])
    assert {layout for layout, call in calls.items() if call.derivative is Derivative.VJP} == layouts.COTANGENTS.keys()
    assert {layout: calls[layout].cotangent for layout in layouts.COTANGENTS} == layouts.COTANGENTS
