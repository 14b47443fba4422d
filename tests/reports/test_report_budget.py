"""The budget report says what each cell spent of what it might, and after how many calls that pays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_facts import (
    CONFIG,
    SWEEP,
    TARGET,
    budget,
    candidate_of,
    ended,
    finished,
    started,
    subject_of,
    submitted,
    write,
)

from tensorfarm.contract import events as e
from tensorfarm.farm.observe.budget_report import budgeted
from tensorfarm.farm.store.layout import StoreLayout

Reported = Callable[..., dict[str, Any]]
Farm = Callable[..., tuple[int, str, str]]


def by_program(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["subject"].partition("/")[0]: row for row in report["rows"]}


def test_a_limit_is_of_compiling_and_gate_time_counts_as_spent(swept: StoreLayout, reported: Reported) -> None:
    cells = by_program(reported("budget"))
    assert cells["fast"]["spent_seconds"] == 12.0
    assert cells["fast"]["used"] == pytest.approx(0.5)
    assert (cells["slow"]["used"], cells["slow"]["spent_seconds"]) == (pytest.approx(0.9), 22.0)


def test_a_compilation_that_was_killed_over_its_budget_says_so(swept: StoreLayout, reported: Reported) -> None:
    broken = by_program(reported("budget"))["broken"]
    assert (broken["verdict"], broken["compile_seconds"], broken["gate_seconds"]) == ("killed", 20.0, None)


def test_calls_until_it_pays_are_of_measured_times(swept: StoreLayout, reported: Reported) -> None:
    cells = by_program(reported("budget"))
    assert cells["fast"]["break_even_calls"] == pytest.approx(12.0 / (0.003 - 0.001))
    assert cells["fast"]["verdict"] == "does not pay"  # 6000 calls are more than the 5000 declared
    assert cells["slow"]["break_even_calls"] == "inf"
    assert cells["broken"]["break_even_calls"] is None


def test_more_declared_calls_make_it_pay(swept: StoreLayout, reported: Reported) -> None:
    write(swept, (70, e.BudgetDeclared("nightly-1", "again", "nightly-1", "calls", 6_001.0)))
    assert by_program(reported("budget"))["fast"]["verdict"] == "pays"


def test_a_slower_candidate_never_pays_in_words(swept: StoreLayout, farm: Farm) -> None:
    line = next(line for line in farm("report", "budget")[1].splitlines() if line.startswith("slow/"))
    assert "never" in line.split()
    assert "90 %" in line


def test_a_rejected_candidate_shows_what_was_predicted_of_it(layout: StoreLayout, reported: Reported) -> None:
    rejected = e.TaskRejected(SWEEP, subject_of("fast"), candidate_of("fast"), math.inf, 100.0, "never pays")
    write(
        layout,
        (0, started()),
        (1, budget("calls", 100.0)),
        (2, submitted("fast")),
        (3, rejected),
        (4, ended("fast", "task_rejection")),
        (5, finished()),
    )
    fast = by_program(reported("budget"))["fast"]
    assert (fast["verdict"], fast["rejected_break_even_calls"]) == ("rejected", "inf")
    assert fast["spent_seconds"] is None


def test_a_cell_from_the_cache_spent_nothing_here(layout: StoreLayout, reported: Reported) -> None:
    answered = e.CacheAnswered(SWEEP, subject_of("fast"), candidate_of("fast"), "bytes", "gate", "earlier", True)
    write(layout, (0, started()), (1, submitted("fast")), (2, answered), (3, ended("fast")), (4, finished()))
    fast = by_program(reported("budget"))["fast"]
    assert (fast["spent_seconds"], fast["verdict"]) == (0.0, "cached")


def test_a_sweep_without_limits_still_says_what_was_spent(layout: StoreLayout, farm: Farm, reported: Reported) -> None:
    write(layout, (0, started()), (1, submitted("fast")), (2, ended("fast")), (3, finished()))
    cells = by_program(reported("budget"))
    assert list(cells) == [program["name"] for program in CONFIG["programs"]]
    assert cells["fast"]["limit_seconds"] is None
    assert "no limit was declared" in farm("report", "budget")[1]


def test_another_sweeps_limit_is_not_this_ones(swept: StoreLayout, reported: Reported) -> None:
    write(swept, (100, started("nightly-2")), (101, e.BudgetDeclared("nightly-2", "x", "nightly-2", "calls", 1.0)))
    assert by_program(reported("budget", "nightly-1"))["fast"]["declared_calls"] == 5_000.0


def test_an_unknown_sweep_is_refused_in_one_line(swept: StoreLayout, farm: Farm) -> None:
    code, out, err = farm("report", "budget", "nightly-9")
    assert (code, out) == (2, "")
    assert "nightly-9" in err
    assert "nightly-1" in err


seconds = st.floats(0, 1e4) | st.none()


@given(seconds, seconds, seconds, seconds, st.floats(1e-3, 1e4) | st.none())
def test_break_even_is_never_negative_and_known_only_where_all_was_measured(
    compiling: float | None, gate: float | None, eager: float | None, candidate: float | None, limit: float | None
) -> None:
    found = budgeted(
        {
            "compile_seconds": compiling,
            "gate_seconds": gate,
            "eager_p50_seconds": eager,
            "candidate_p50_seconds": candidate,
            "limit_seconds": limit,
            "cached": False,
            "outcome_kind": "",
            "rejected_break_even_calls": None,
            "declared_calls": None,
        }
    )
    known = found["break_even_calls"]
    assert (known is None) == (eager is None or candidate is None or (compiling is None and gate is None))
    if known is not None and eager is not None and candidate is not None:
        assert known >= 0
        assert math.isinf(known) or eager > candidate
    assert (found["used"] is not None) == (limit is not None and compiling is not None)


def test_a_bisection_by_hand_is_never_the_newest_sweep_and_is_shown_by_its_name(swept: StoreLayout, farm: Farm) -> None:
    config = json.dumps({"programs": CONFIG["programs"][:1], "pairs": 0})
    write(swept, (100, e.SweepStarted("bisect-1", "s", "bisect-fast", config, "c", TARGET, "t0", "{}")))
    code, out, _ = farm("report", "sweep", "--json")
    assert (code, json.loads(out)["sweep_id"]) == (0, SWEEP)
    code, out, _ = farm("report", "sweep", "bisect-1", "--json")
    assert (code, json.loads(out)["sweep_id"]) == (0, "bisect-1")


def test_a_store_of_bisections_by_hand_alone_holds_no_sweep_and_names_them(layout: StoreLayout, farm: Farm) -> None:
    config = json.dumps({"programs": CONFIG["programs"][:1], "pairs": 0})
    write(layout, (1, e.SweepStarted("bisect-1", "s", "bisect-fast", config, "c", TARGET, "t0", "{}")))
    code, _, err = farm("report", "sweep")
    assert code == 2
    assert "holds no sweep (only bisections by hand, to be named: bisect-1)" in err
