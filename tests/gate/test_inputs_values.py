"""Suites of values: everything but the values is the example's, and the values are what the suite says."""

from collections.abc import Mapping

import pytest
import torch
from gate_settings import FLOATING, randn, setting_of, settings_of_any_leaves, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.tensors import storage_sha256
from tensorfarm.gate.inputs import (
    exact_integers,
    example,
    near_kink,
    normal,
    small_scale,
    special_values,
    ties,
    wide_exponent,
)
from tensorfarm.gate.inputs.refill import floats, overlaps, real_values
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Derivative, Trial

SUITES = (normal, small_scale, wide_exponent, ties, near_kink)


def suites_of(setting: Setting) -> list[Trial]:
    found = [suite.trial(setting) for suite in SUITES]
    return [
        example.trial(setting),
        *(trial for trial in found if trial is not None),
        *special_values.trials(setting),
        *exact_integers.trials(setting),
    ]


def only(trial: Trial | None) -> Mapping[str, torch.Tensor]:
    assert trial is not None
    assert len(trial.calls) == 1
    return trial.calls[0].inputs


def pointers(inputs: Mapping[str, torch.Tensor]) -> list[int]:
    """Which storage each leaf has, by first appearance."""
    seen: dict[int, int] = {}
    return [
        seen.setdefault(value.untyped_storage().data_ptr(), len(seen))
        for value in inputs.values()
        if value.untyped_storage().nbytes()
    ]


@settings(max_examples=60, deadline=None)
@given(settings_of_any_leaves())
def test_all_but_the_values_is_the_examples(setting: Setting) -> None:
    before = {name: storage_sha256(value) for name, value in setting.tensors.items()}
    for trial in suites_of(setting):
        inputs = only(trial)
        assert list(inputs) == list(setting.tensors)
        assert pointers(inputs) == pointers(setting.tensors)
        owned = {value.untyped_storage().data_ptr() for value in setting.tensors.values()} - {0}
        for name, wanted in setting.tensors.items():
            given_ = inputs[name]
            assert (given_.shape, given_.dtype, given_.stride()) == (wanted.shape, wanted.dtype, wanted.stride())
            assert given_.storage_offset() == wanted.storage_offset()
            assert given_.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()
            assert (given_.is_conj(), given_.requires_grad) == (wanted.is_conj(), wanted.requires_grad)
            assert given_.untyped_storage().data_ptr() not in owned
            assert given_.is_leaf
            if name not in floats(setting):
                assert torch.equal(given_, wanted)
    assert {name: storage_sha256(value) for name, value in setting.tensors.items()} == before


@settings(max_examples=30, deadline=None)
@given(settings_of_any_leaves())
def test_the_same_seed_gives_the_same_bits(setting: Setting) -> None:
    for first, second in zip(suites_of(setting), suites_of(setting), strict=True):
        assert first.name == second.name
        for name, value in only(first).items():
            assert storage_sha256(value) == storage_sha256(only(second)[name])


def test_another_seed_gives_other_values_and_another_leaf_changes_none() -> None:
    inputs = {"x": randn(7, 5)}
    one, other = (only(normal.trial(setting_of(inputs, seed=seed)))["x"] for seed in (1, 2))
    assert not torch.equal(one, other)
    more = only(normal.trial(setting_of({"w": randn(3), **inputs}, seed=1)))["x"]
    assert torch.equal(one, more)


def test_names_of_trials_are_all_different() -> None:
    trials = suites_of(setting_of({"x": randn(7, 5), "w": randn(5, 3)}, module=True))
    assert len({trial.name for trial in trials}) == len(trials)
    assert all("|" not in trial.name for trial in trials)


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_that_the_contract_leaves_out_is_not_made(suite: object) -> None:
    inputs = {"x": randn(3, 4)}
    assert suite.trial(setting_of(inputs, {"inputs.suites": ["exact_integers"]})) is None  # type: ignore[attr-defined]
    assert suite.trial(setting_of({"ids": torch.arange(4)})) is None  # type: ignore[attr-defined]


def test_gradients_are_asked_for_in_training_alone() -> None:
    inputs = {"x": randn(3, 4)}
    assert example.trial(setting_of(inputs)).calls[0].derivative is Derivative.NONE
    assert example.trial(setting_of(inputs, mode="training")).calls[0].derivative is Derivative.VJP
    untrainable = setting_of(inputs, mode="training", trainable=False)
    assert example.trial(untrainable).calls[0].derivative is Derivative.NONE
    assert example.trial(untrainable).depth is Depth.BUDGET


@settings(max_examples=60, deadline=None)
@given(tensors(FLOATING[:4]), tensors(FLOATING[:4]), st.integers(0, 9))
def test_sums_of_products_of_exact_integers_stay_countable(left: torch.Tensor, right: torch.Tensor, seed: int) -> None:
    setting = setting_of({"a": left, "b": right}, seed=seed)
    for trial in exact_integers.trials(setting):
        inputs = only(trial)
        wide = trial.name.removeprefix("exact_integers:wide:")
        wide = exact_integers.widest_leaf(setting) if wide == trial.name else wide
        values = {name: real_values(value) for name, value in inputs.items()}
        if overlaps(inputs[wide]):
            continue
        for name, value in values.items():
            bits = min(13, exact_integers.digits(inputs[name].dtype)) if name == wide else 2
            assert torch.equal(value, value.round())
            assert not value.numel() or float(value.abs().max()) < 2**bits
            room = exact_integers.exact_below(inputs[name].dtype, setting.contract)
            assert float(value.abs().sum()) * exact_integers.LARGEST < room


@pytest.mark.parametrize("shape", [(64, 1024), (300_000,), (3, 1_000_003)])
def test_a_sum_of_exact_integers_is_the_same_in_every_order(shape: tuple[int, ...]) -> None:
    inputs = only(exact_integers.trial(setting_of({"x": torch.ones(shape), "w": torch.ones(shape)})))
    products = (inputs["x"] * inputs["w"]).reshape(-1)
    exact = products.double().sum().item()
    order = torch.randperm(products.numel(), generator=torch.Generator().manual_seed(1))
    sequential = products.cumsum(0)[-1]
    blocked = (
        products[order][: products.numel() // 64 * 64].view(64, -1).sum(1).sum()
        + products[order][products.numel() // 64 * 64 :].sum()
    )
    assert products.sum().item() == sequential.item() == blocked.item() == exact


def test_exact_integers_show_operands_that_were_rounded_and_narrow_sums() -> None:
    inputs = only(exact_integers.trial(setting_of({"a": randn(31, 257), "b": randn(257, 29)})))
    a, b = inputs["a"], inputs["b"]
    exact = (a.double() @ b.double()).float()
    assert torch.equal(a @ b, exact)
    truncated = (a.view(torch.int32) & ~0x1FFF).view(torch.float32) @ b
    assert not torch.equal(truncated, exact)
    half = only(exact_integers.trial(setting_of({"a": randn(31, 257, dtype=torch.bfloat16)})))["a"]
    narrow = torch.zeros(31, dtype=torch.bfloat16)
    for column in half.unbind(1):
        narrow = narrow + column
    assert not torch.equal(narrow, half.double().sum(1).bfloat16())


def test_the_widest_integers_go_to_an_operand_and_at_the_full_level_to_each() -> None:
    inputs = {"bias": randn(29), "a": randn(31, 257), "b": randn(257, 29)}
    names = [trial.name for trial in exact_integers.trials(setting_of(inputs))]
    assert names == ["exact_integers", "exact_integers:wide:bias", "exact_integers:wide:b"]
    quick = setting_of(inputs, level=Level.QUICK, module=True)
    assert [trial.name for trial in exact_integers.trials(quick)] == ["exact_integers"]
    assert float(only(exact_integers.trial(quick))["a"].abs().max()) > 2**12
    standard = setting_of(inputs, level=Level.STANDARD, module=True)
    _, weights = exact_integers.trials(standard)
    assert weights.name == exact_integers.WEIGHTS
    assert weights.calls[0].between == "integer_parameters"
    assert weights.depth is Depth.EXACT


def test_special_values_stand_alone_and_each_kind_has_a_trial() -> None:
    setting = setting_of({"x": randn(16, 12), "scale": randn()})
    seen = {trial.name.removeprefix("special_values:"): only(trial) for trial in special_values.trials(setting)}
    assert seen.keys() == {*special_values.POISON, *special_values.HARMLESS}
    for kind, bad in (("nan", torch.isnan), ("inf", torch.isposinf), ("negative_inf", torch.isneginf)):
        where = bad(seen[kind]["x"])
        assert int(where.sum()) == 3
        assert int(where.sum(0).max()) == int(where.sum(1).max()) == 1
        assert bool(where[:, -1].any())
        assert bool(bad(seen[kind]["scale"]))
        assert torch.equal(seen[kind]["x"][~where], setting.tensors["x"][~where])
    info = torch.finfo(torch.float32)
    assert float(seen["max"]["x"].max()) == info.max
    assert float(seen["min"]["x"].min()) == info.min
    zeros = seen["zeros"]["x"]
    assert {bool(sign) for sign in zeros[zeros == 0].signbit()} == {True, False}
    small = seen["subnormals"]["x"].abs()
    assert bool(((small > 0) & (small < info.smallest_normal)).any())


@pytest.mark.parametrize(("rows", "shared"), [(16, True), (15, False)])
def test_below_the_full_level_kinds_share_a_call_only_where_each_has_a_place(rows: int, shared: bool) -> None:
    setting = setting_of({"x": randn(rows, 40), "y": randn(2, 16, 16)}, level=Level.STANDARD)
    seen = {trial.name.removeprefix("special_values:"): only(trial) for trial in special_values.trials(setting)}
    assert seen.keys() == ({*special_values.SHARED} if shared else {*special_values.POISON, *special_values.HARMLESS})
    info = torch.finfo(torch.float32)
    if shared:
        planted = seen["extremes"]["x"][seen["extremes"]["x"] != setting.tensors["x"]]
        assert set(planted.tolist()) == {torch.inf, -torch.inf, info.max, info.min}
        small = seen["harmless"]["y"].abs()
        assert bool((small == 0).any())
        assert bool(((small > 0) & (small < info.smallest_normal)).any())


def test_zeros_of_different_sign_meet_where_two_inputs_are_combined() -> None:
    setting = setting_of({"a": randn(16, 12), "b": randn(16, 12)})
    trial = next(item for item in special_values.trials(setting) if item.name == "special_values:zeros")
    a, b = only(trial)["a"], only(trial)["b"]
    both = (a == 0) & (b == 0)
    assert bool((both & a.signbit() & ~b.signbit()).any())
    assert bool((both & ~a.signbit() & b.signbit()).any())


@pytest.mark.parametrize("dtype", FLOATING[:4])
def test_wide_exponents_stay_finite_and_cover_both_ends(dtype: torch.dtype) -> None:
    x = only(wide_exponent.trial(setting_of({"x": randn(40, 50, dtype=dtype)})))["x"].double().abs()
    info = torch.finfo(dtype)
    assert bool(x.isfinite().all())
    assert float(x.min()) >= info.smallest_normal
    assert float(x.max()) > min(1e28, info.max / 100)
    assert float(x.min()) < max(1e-28, info.smallest_normal * 100)


def test_small_scale_shows_an_epsilon_that_was_dropped() -> None:
    x = only(small_scale.trial(setting_of({"x": randn(8, 64)})))["x"].double()
    right, wrong = (x / (x.var(-1, keepdim=True) + epsilon).sqrt() for epsilon in (1e-5, 1e-6))
    assert float((right / wrong - 1).abs().min()) > 0.1


def test_ties_show_rounding_away_from_zero_and_have_two_maxima_in_a_row() -> None:
    x = only(ties.trial(setting_of({"x": randn(40, 9)})))["x"]
    away = torch.where(x >= 0, (x + 0.5).floor(), (x - 0.5).ceil())
    assert not torch.equal(away, x.round())
    maxima = x == x.amax(-1, keepdim=True)
    assert maxima.sum(-1).tolist() == [2] * 40
    for dtype in ties.NARROWER:
        gap = torch.finfo(dtype).eps
        halves = (x.abs() == 1 + gap / 2) | (x.abs() == 1 + 1.5 * gap)
        assert bool(halves.any())
        assert float((x[halves].to(dtype).float() - x[halves]).abs().min()) == gap / 2


@pytest.mark.parametrize("dtype", FLOATING[:4])
def test_near_kinks_are_one_value_away(dtype: torch.dtype) -> None:
    table = near_kink.neighbours(dtype)
    assert torch.equal(table.to(dtype).double(), table)
    kinks = torch.tensor(near_kink.KINKS, dtype=dtype)
    bits = {torch.float32: torch.int32, torch.float64: torch.int64}.get(dtype, torch.int16)
    for step in (-1, 1):
        next_to = (kinks.view(bits) + step).view(dtype).double()
        assert bool(torch.isin(next_to, table).all())
        assert bool(torch.isin(-next_to, table).all())
    x = only(near_kink.trial(setting_of({"x": randn(40, 50, dtype=dtype)})))["x"].double()
    assert bool(torch.isin(table, x).all())


def test_drawn_values_stay_in_the_declared_range() -> None:
    setting = setting_of({"x": randn(9, 8)}, {"inputs.ranges.floating": [-1.0, 2.0]})
    for trial in suites_of(setting)[1:]:
        if trial.suite != "special_values":
            assert bool((only(trial)["x"].abs() <= 2).all()), trial.name
            assert bool((only(trial)["x"] >= -1).all()), trial.name


def test_nothing_is_drawn_before_somebody_looks() -> None:
    setting = setting_of({"x": randn(3, 4), "y": randn(2)})
    trial = normal.trial(setting)
    inputs = only(trial)
    assert (list(inputs), len(inputs), "x" in inputs) == (["x", "y"], 2, True)
    assert all("_drawn" not in vars(made) for made in setting.drawn.values())
    assert inputs["x"].shape == (3, 4)
    assert only(normal.trial(setting))["x"] is inputs["x"]
