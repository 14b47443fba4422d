"""Small widenings add up; an audit clears them, unless it is the widening's own."""

from datetime import date, timedelta
from typing import Any

import pytest
from tests.contract.contract_drafts import FLOAT32, changed, entry

from tensorfarm.contract.contract_drift import Drift, Revision, Slack, drift

START = date(2026, 1, 1)
TODAY = date(2026, 12, 1)
C, K = "budgets.outputs.c", "budgets.gradients.k"
Step = tuple[int, dict[str, Any]]


def history(*steps: Step, files: dict[int, tuple[str, ...]] | None = None) -> list[Revision]:
    """A contract that is born on the first day and then changed on others, by what it says from then on."""
    found = [Revision("c0", START, {}, FLOAT32, ("contract.yaml",))]
    for number, (day, changes) in enumerate(steps, 1):
        before = found[-1].after
        names = ("contract.yaml", *(files or {}).get(number, ()))
        after = changed(changes, base=before)
        found.append(Revision(f"c{number}", START + timedelta(days=day), before, after, names))
    return found


def drifted(*steps: Step, **files: Any) -> Drift:
    revisions = history(*steps, **files)
    return drift(revisions, revisions[-1].after, TODAY)


def rules(found: Drift) -> dict[str, float]:
    return {alarm.rule: alarm.value for alarm in found.alarms}


def test_a_contract_that_never_changed_raises_no_alarm() -> None:
    found = drifted()
    assert (found.since, found.widenings, found.alarms) == (None, (), ())


def test_doubling_once_is_no_alarm_and_a_little_more_is() -> None:
    assert rules(drifted((10, {C: 8}))) == {}
    assert rules(drifted((10, {C: 8.5}))) == {"product_of_ratios_over": 2.125}


def test_widenings_far_apart_are_multiplied_field_by_field() -> None:
    assert rules(drifted((0, {C: 6}), (100, {K: 18}))) == {}
    assert rules(drifted((0, {C: 6}), (100, {C: 9}))) == {"product_of_ratios_over": 2.25}


def test_tightening_in_between_does_not_hide_a_widening() -> None:
    found = drifted((0, {C: 6}), (100, {C: 4}), (200, {C: 6}))
    assert rules(found) == {"product_of_ratios_over": 2.25}
    assert [item.ratio for item in found.widenings] == [1.5, 1.5]


@pytest.mark.parametrize(("days", "alarms"), [(90, {"widenings": 2.0}), (91, {})])
def test_two_widenings_within_ninety_days_are_an_alarm(days: int, alarms: dict[str, float]) -> None:
    assert rules(drifted((5, {C: 5}), (5 + days, {"numerics.signed_zero": "ignore"}))) == alarms


def test_two_fields_widened_by_one_commit_are_one_widening() -> None:
    found = drifted((5, {C: 5, K: 13}))
    assert (len(found.widenings), found.alarms) == (2, ())


def test_a_limit_where_there_was_none_is_an_alarm() -> None:
    assert rules(drifted((5, {C: 0}), (6, {C: 1}))) == {"product_of_ratios_over": float("inf")}


def test_an_audit_clears_what_was_before() -> None:
    found = drifted((0, {C: 6}), (10, {C: 9}), (20, {"governance.audited": "2026-01-21"}))
    assert (found.since, found.widenings, found.alarms) == (date(2026, 1, 21), (), ())
    assert rules(drifted((0, {C: 9}), (20, {"governance.audited": "2026-01-21"}), (30, {C: 20}))) == {
        "product_of_ratios_over": 20 / 9
    }


def test_a_widening_cannot_audit_itself() -> None:
    found = drifted((20, {C: 9, "governance.audited": "2026-01-21"}))
    assert (found.since, rules(found)) == (None, {"product_of_ratios_over": 2.25})


def test_an_audit_cannot_lie_in_the_future() -> None:
    found = drifted((20, {"governance.audited": "2099-01-01"}), (30, {C: 9}))
    assert (found.since, rules(found)) == (date(2026, 1, 21), {"product_of_ratios_over": 2.25})


@pytest.mark.parametrize(
    ("name", "alarms"),
    [("passes/fold.py", {"widened_with_code": 1.0}), ("tests/test_fold.py", {}), ("notes.md", {})],
)
def test_a_contract_is_not_widened_by_the_change_that_fails_on_it(name: str, alarms: dict[str, float]) -> None:
    assert rules(drifted((5, {C: 5}), files={1: (name,)})) == alarms
    assert rules(drifted((5, {C: 3}), files={1: (name,)})) == {}


def test_a_justification_that_expired_is_an_alarm() -> None:
    widening = entry(C, 4, 5, expires="2026-11-30")
    found = drifted((5, {C: 5, "governance.widenings": [widening]}))
    assert rules(found) == {"expires": 1.0}


@pytest.mark.parametrize(
    ("observed", "alarms"),
    [(0.25, {}), (0.2, {"budget_over_observed": 5.0}), (0.0, {"budget_over_observed": float("inf")})],
)
def test_a_budget_that_nobody_approaches_is_an_alarm(observed: float, alarms: dict[str, float]) -> None:
    found = drift(history(), FLOAT32, TODAY, [Slack(C, observed, 500)])
    assert rules(found) == alarms


def test_a_history_that_began_in_an_older_format_is_read_as_far_as_it_goes() -> None:
    old = {"contract": {"id": "float32"}, "budgets": {"outputs": {"c": 1, "k": 10}}, "exact": {"integers": True}}
    revisions = [Revision("a", START, {}, old), Revision("b", START, old, FLOAT32)]
    assert rules(drift(revisions, FLOAT32, TODAY)) == {"product_of_ratios_over": 4.0}
