"""The shape ladder: what moves together, how long it becomes, and which rows are the same in all of it."""

import pytest
import torch
from gate_settings import FLOATING, INTEGRAL, at_level, randn, setting_of, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.gate.inputs import batches, ladder
from tensorfarm.gate.setting import Level
from tensorfarm.gate.trial import Depth, Trial

SIZES = (0, 1, 2, 3, 7, 17, 40)
BATCH = {"shapes.batch": list(SIZES)}


def by_name(trials: list[Trial]) -> dict[str, Trial]:
    assert len({trial.name for trial in trials}) == len(trials)
    return {trial.name: trial for trial in trials}


@settings(max_examples=60, deadline=None)
@given(st.lists(tensors(FLOATING + INTEGRAL), min_size=1, max_size=3))
def test_every_size_holds_the_first_rows_of_every_larger_one(values: list[torch.Tensor]) -> None:
    setting = setting_of({f"x{number}": value for number, value in enumerate(values)}, BATCH)
    moving = ladder.batch_axis(setting)
    assert bool(moving) == any(value.dim() for value in values)
    found = by_name(ladder.trials(setting))
    assert {trial.suite for trial in found.values()} <= {"ladder"}
    for size in ladder.sizes(setting):
        inputs = found[ladder.name_of(size)].calls[0].inputs
        longest = found[ladder.name_of(max(SIZES))].calls[0].inputs
        assert list(inputs) == list(setting.tensors)
        for name, example in setting.tensors.items():
            assert inputs[name].dtype == example.dtype
            assert inputs[name].requires_grad == example.requires_grad
            if name in moving:
                assert inputs[name].shape == (size, *example.shape[1:])
                assert torch.equal(inputs[name], longest[name][:size])
                shared = min(size, example.shape[0])
                assert torch.equal(inputs[name][:shared], example[:shared])
            else:
                assert torch.equal(inputs[name], example)


def test_leaves_as_long_as_the_first_move_and_the_others_stay() -> None:
    inputs = {"flag": torch.tensor(2.0), "x": randn(4, 5), "ids": torch.arange(4), "w": randn(5, 3)}
    assert ladder.batch_axis(setting_of(inputs)) == {"x": 0, "ids": 0}
    assert ladder.batch_axis(setting_of(inputs, {"shapes.declared_dynamic": ["w", "B"]})) == {"w": 0}
    assert ladder.batch_axis(setting_of({"flag": torch.tensor(2.0)})) == {}
    assert ladder.trials(setting_of({"flag": torch.tensor(2.0)})) == []


def test_further_rows_are_new_and_within_the_examples_domain() -> None:
    x = randn(4, 5).abs() + 1
    trial = by_name(ladder.trials(setting_of({"x": x, "ids": torch.tensor([3, 0, 2, 1])}, BATCH)))["ladder:17"]
    rows = trial.calls[0].inputs["x"]
    assert len({tuple(row.tolist()) for row in rows}) == 17
    assert bool((rows >= x.amin(0)).all())
    assert bool((rows <= x.amax(0)).all())
    assert trial.calls[0].inputs["ids"].tolist() == [3, 0, 2, 1] * 4 + [3]


def test_a_single_row_is_varied_and_an_empty_example_is_filled() -> None:
    one = by_name(ladder.trials(setting_of({"x": randn(1, 5)}, BATCH)))["ladder:3"].calls[0].inputs["x"]
    assert len({tuple(row.tolist()) for row in one}) == 3
    none = by_name(ladder.trials(setting_of({"x": randn(0, 5)}, BATCH)))["ladder:3"].calls[0].inputs["x"]
    assert bool((none != 0).all())


def test_axes_keep_their_order_in_memory() -> None:
    x = randn(4, 3, 6, 7).contiguous(memory_format=torch.channels_last)
    for trial in ladder.trials(setting_of({"x": x}, BATCH)):
        if not trial.name.startswith("ladder:axis1"):
            assert trial.calls[0].inputs["x"].is_contiguous(memory_format=torch.channels_last)


def test_the_standard_level_takes_a_few_sizes_and_the_full_one_a_second_axis() -> None:
    full = setting_of({"x": randn(4, 5), "mask": torch.ones(4, 5, dtype=torch.bool)}, BATCH)
    standard = by_name(ladder.trials(at_level(full, Level.STANDARD)))
    assert list(standard) == ["ladder:0", "ladder:1", "ladder:2", "ladder:3", "ladder:17"]
    everything = by_name(ladder.trials(full))
    second = everything["ladder:axis1:7"].calls[0].inputs
    assert (second["x"].shape, second["mask"].shape) == ((4, 7), (4, 7))
    assert torch.equal(second["x"][:, :5], full.tensors["x"])
    assert everything["ladder:17"].depth is Depth.BUDGET
    assert everything["ladder:40"].depth is Depth.EXACT


def test_sizes_whose_inputs_would_be_huge_are_left_out_and_said_to_be() -> None:
    setting = setting_of({"x": torch.zeros(2, 2**20)}, BATCH)
    assert ladder.sizes(setting) == (0, 1, 2, 3, 7)
    assert ladder.left_out(setting) == (17, 40)
    assert "ladder:17" not in by_name(ladder.trials(setting))


@pytest.mark.parametrize("level", [Level.STANDARD, Level.FULL])
def test_a_row_is_the_same_wherever_batches_say_it_stands(level: Level) -> None:
    setting = setting_of({"x": randn(4, 5), "w": randn(5, 3)}, BATCH, level=level)
    found = by_name(batches.trials(setting))
    places = batches.places(setting)
    assert found.keys() == places.keys()
    seen: dict[int, torch.Tensor] = {}
    for name, rows in places.items():
        for row, position in rows.items():
            value = found[name].calls[0].inputs["x"][position]
            assert torch.equal(seen.setdefault(row, value), value)
    alone = {name: trial for name, trial in found.items() if name.startswith("batch:alone")}
    assert all(trial.calls[0].inputs["x"].shape == (1, 5) for trial in alone.values())
    assert all(trial.depth is Depth.ITSELF for trial in alone.values())
    assert set(alone) == {"batch:alone:1", f"batch:alone:{max(ladder.sizes(setting)) - 1}"}
    shared = by_name(ladder.trials(setting))
    assert all(found[name].depth is shared[name].depth for name in found if name in shared)


def test_without_a_batch_there_are_no_rows() -> None:
    setting = setting_of({"flag": torch.tensor(2.0)})
    assert batches.trials(setting) == []
    assert batches.places(setting) == {}
