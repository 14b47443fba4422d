"""Two contracts side by side: what a change accepts more is a widening, seen from the other side a tightening."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.contract_drafts import FLOAT32, changed

from tensorfarm.contract.contract_diff import Change, FieldChange, compared
from tensorfarm.contract.contract_fields import FieldRule, Widens, field_rules, field_values

OPPOSITE = {Change.WIDENS: Change.TIGHTENS, Change.TIGHTENS: Change.WIDENS}
SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True).map(sorted)
LISTS = {
    "shapes.batch": SIZES,
    "shapes.declared_dynamic": st.lists(st.sampled_from("BSTN"), unique=True),
    "devices": st.lists(st.sampled_from(["cpu", "cpu/avx2", "cuda"]), min_size=1, unique=True),
}


def _values(rule: FieldRule, present: Any) -> st.SearchStrategy[Any]:
    if rule.path in LISTS:
        return LISTS[rule.path]
    if rule.widens is Widens.LATER:
        return st.sampled_from(rule.words)
    if rule.widens is Widens.REMOVAL:
        return st.lists(st.sampled_from(present), min_size=1, unique=True)
    if rule.widens is Widens.NARROWER:
        return st.tuples(st.integers(-9, 0), st.integers(1, 9)).map(list)
    return st.integers(1, 9)


@st.composite
def contracts(draw: st.DrawFn) -> dict[str, Any]:
    present = field_values(FLOAT32)
    free = [rule for rule in field_rules().values() if rule.widens is not Widens.FIXED]
    chosen = draw(st.lists(st.sampled_from(free), max_size=8, unique=True))
    return changed({rule.path: draw(_values(rule, present[rule.path])) for rule in chosen})


def one(path: str, old: Any, new: Any) -> FieldChange:
    """The one change that is seen when a field goes from one value to another."""
    found = compared(changed({path: old}), changed({path: new}))
    (change,) = [item for item in found if item.change is not Change.EQUAL]
    assert change.path == path
    return change


@settings(max_examples=60, deadline=None)
@given(contracts())
def test_a_contract_equals_itself(fields: dict[str, Any]) -> None:
    found = compared(fields, fields)
    assert {item.change for item in found} == {Change.EQUAL}
    assert [item.path for item in found] == list(field_rules())


@settings(max_examples=150, deadline=None)
@given(contracts(), contracts())
def test_what_tightens_widens_seen_from_the_other_side(left: dict[str, Any], right: dict[str, Any]) -> None:
    for there, back in zip(compared(left, right), compared(right, left), strict=True):
        assert OPPOSITE.get(there.change, there.change) is back.change
        assert math.isclose(there.ratio * back.ratio, 1.0)
        assert (there.old, there.new) == (back.new, back.old)


@settings(max_examples=100, deadline=None)
@given(contracts(), contracts(), contracts())
def test_two_tightenings_in_a_row_never_widen(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    for before, after, whole in zip(compared(a, b), compared(b, c), compared(a, c), strict=True):
        if {before.change, after.change} <= {Change.EQUAL, Change.TIGHTENS}:
            assert whole.change in (Change.EQUAL, Change.TIGHTENS)
            assert not whole.to_justify


@pytest.mark.parametrize(
    ("path", "old", "new", "ratio"),
    [
        ("budgets.outputs.c", 4, 6, 1.5),
        ("budgets.gradients.k", 0, 1, math.inf),
        ("oracle.digits_undecidable_below", 2, 1, 2.0),
        ("inputs.exact_integers.int_bits", 12, 8, 1.5),
        ("numerics.accumulate.bfloat16", "float32", "bfloat16", 1.0),
        ("numerics.dtypes.outputs", "float32", "bfloat16", 1.0),
        ("numerics.dtypes.outputs", "bfloat16", "any", 1.0),
        ("numerics.subnormals", "preserve", "flush_both", 1.0),
        ("numerics.signed_zero", "exact", "ignore", 1.0),
        ("determinism.batch_invariant", True, False, 1.0),
        ("index_outputs", "exact", "value_at_index", 1.0),
        ("devices", ["cpu", "cuda"], ["cpu"], 1.0),
        ("inputs.suites", ["ties", "normal"], ["ties"], 1.0),
        ("inputs.ranges.floating", [-9.0, 9.0], [-1.0, 9.0], 1.0),
    ],
)
def test_accepting_more_is_a_widening(path: str, old: Any, new: Any, ratio: float) -> None:
    change = one(path, old, new)
    assert (change.change, change.ratio, change.to_justify) == (Change.WIDENS, ratio, True)
    assert not one(path, new, old).to_justify


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("devices", ["cpu"], ["cuda"]),
        ("shapes.batch", [0, 1, 2], [0, 1, 3]),
        ("inputs.ranges.integer", [-9, 0], [0, 9]),
    ],
)
def test_a_swap_is_unordered_and_yet_to_be_justified_since_something_is_dropped(path: str, old: Any, new: Any) -> None:
    change = one(path, old, new)
    assert (change.change, change.to_justify) == (Change.CHANGES, True)


def test_another_seed_is_a_change_that_nobody_need_justify() -> None:
    change = one("oracle.monte_carlo.seed", 0, 1)
    assert (change.change, change.to_justify) == (Change.CHANGES, False)


def test_the_order_of_a_list_says_nothing() -> None:
    backwards = changed({"inputs.suites": FLOAT32["inputs"]["suites"][::-1]})
    assert {item.change for item in compared(FLOAT32, backwards)} == {Change.EQUAL}


def test_only_what_both_have_is_compared_with_an_older_format() -> None:
    old = {"budgets": {"outputs": {"c": 2, "k": 10}}, "metadata": {"stride": "as_reference"}}
    assert [(item.path, item.change) for item in compared(old, FLOAT32)] == [
        ("budgets.outputs.c", Change.WIDENS),
        ("budgets.outputs.k", Change.EQUAL),
    ]
