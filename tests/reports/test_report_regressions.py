"""The report of regressions shows what is open, by the newest proof, and never calls a suspicion a regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from report_facts import regression, write

from tensorfarm.contract import events as e
from tensorfarm.farm.store.layout import StoreLayout

Reported = Callable[..., dict[str, Any]]
Farm = Callable[..., tuple[int, str, str]]


def states(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["subject"].partition("/")[0], row["state"]) for row in report["rows"]]


def test_a_confirmed_one_comes_first_with_its_interval(layout: StoreLayout, reported: Reported) -> None:
    write(
        layout,
        (0, regression("slow", "nominated", 1.4)),
        (1, regression("slow", "confirmed", 1.25)),
        (2, regression("fast", "nominated", 1.1)),
    )
    report = reported("regressions")
    assert states(report) == [("slow", "confirmed"), ("fast", "nominated")]
    slow = report["rows"][0]
    assert (slow["ratio"], slow["ratio_lower"], slow["ratio_upper"]) == (1.25, 1.25 / 1.02, 1.25 * 1.02)
    assert (slow["smallest_detectable"], slow["baseline"]) == (1.03, "last_accepted")


def test_a_fixed_one_is_left_out_until_all_are_asked_for(layout: StoreLayout, reported: Reported, farm: Farm) -> None:
    write(
        layout,
        (0, regression("slow", "nominated", 1.3)),
        (1, regression("slow", "confirmed", 1.3)),
        (9, regression("slow", "fixed", 0.99, "nightly-2")),
        (10, regression("fast", "nominated", 1.1)),
        (11, regression("fast", "dismissed", 1.0)),
    )
    assert states(reported("regressions")) == []
    assert "1 dismissed" in farm("report", "regressions")[1]
    assert sorted(states(reported("regressions", "--all"))) == [("fast", "dismissed"), ("slow", "fixed")]


def test_to_suspect_an_open_one_again_and_dismiss_that_does_not_close_it(
    layout: StoreLayout, reported: Reported
) -> None:
    write(
        layout,
        (0, regression("slow", "nominated", 1.3)),
        (1, regression("slow", "confirmed", 1.3)),
        (9, regression("slow", "nominated", 1.2, "nightly-2")),
        (10, regression("slow", "dismissed", 1.0, "nightly-2")),
    )
    report = reported("regressions")
    assert states(report) == [("slow", "confirmed")]
    assert report["rows"][0]["ratio"] == 1.3


def test_one_that_came_back_after_it_was_fixed_is_open(layout: StoreLayout, reported: Reported) -> None:
    write(
        layout,
        (0, regression("slow", "confirmed", 1.3)),
        (5, regression("slow", "fixed", 1.0, "nightly-2")),
        (9, regression("slow", "confirmed", 1.5, "nightly-3")),
    )
    assert [(row["state"], row["ratio"]) for row in reported("regressions")["rows"]] == [("confirmed", 1.5)]


def test_as_of_shows_what_was_open_then(layout: StoreLayout, reported: Reported) -> None:
    write(layout, (0, regression("slow", "confirmed", 1.3)), (86_400, regression("slow", "fixed", 1.0, "nightly-2")))
    assert states(reported("regressions")) == []
    assert states(reported("regressions", "--as-of", "2026-05-29T00:00:00")) == [("slow", "confirmed")]


def test_no_regression_is_good_news_and_exit_code_0(swept: StoreLayout, farm: Farm) -> None:
    code, out, err = farm("report", "regressions")
    assert (code, err) == (0, "")
    assert "none was ever suspected" in out


def test_comparisons_that_saw_nothing_are_counted_by_verdict(layout: StoreLayout, reported: Reported) -> None:
    about = ("candidate", "bytes", "last_accepted", "older", "step_seconds", "cpu")
    compared = [
        e.Compared("nightly-1", f"{name}/fx:dce", *about, verdict, 1.0, 0.9, 1.1, 1.1, 1.05, "", 1.0)
        for name, verdict in (("a", "inconclusive"), ("b", "inconclusive"), ("c", "no_worse"))
    ]
    write(layout, *((at, event) for at, event in enumerate(compared)))
    assert reported("regressions")["totals"]["comparisons"] == {"inconclusive": 2, "no_worse": 1}
