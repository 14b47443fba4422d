"""Staleness is a set of reasons: each planted change is found, and nothing else with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from report_facts import (
    CONFIG,
    PIPELINE,
    TARGET,
    admitted,
    artifact_of,
    ended,
    judged,
    measured,
    started,
    subject_of,
    submitted,
    write,
)

from tensorfarm.contract import events as e
from tensorfarm.farm.app.staleness import staleness
from tensorfarm.farm.engine.toolchain import this_toolchain
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.gate.attestation import gate_version

Farm = Callable[..., tuple[int, str, str]]
NOW_SECONDS = 100.0
DAY_SECONDS = 86_400.0
HERE = this_toolchain()


def now() -> datetime:
    return datetime.fromtimestamp(1_780_000_000 + NOW_SECONDS, UTC)


def captured(program: str, semantic_hash: str, sweep_id: str = "nightly-1") -> e.Event:
    return e.ProgramCaptured(sweep_id, program, "m:f", semantic_hash, "spec", "p", "float32", 3, 0, 1.0)


def accepted(program: str, baseline: str = "fast", sweep_id: str = "nightly-1") -> e.Event:
    workload = f"{subject_of(program)} inference {HERE.target}"
    return e.BaselineAccepted(
        sweep_id, subject_of(program), workload, "c", artifact_of(baseline), "last_accepted", "step_seconds", "sweep"
    )


def fresh(layout: StoreLayout, **changed: Any) -> None:
    """One workload for which nothing is wrong; ``changed`` are fields of its submission."""
    (layout.artifacts / f"{artifact_of('fast')}.artifact").write_bytes(bytes(100))
    about = {"target": HERE.target, "toolchain_id": HERE.id} | changed
    write(
        layout,
        (0, started()),
        (1, captured("fast", "hash of fast")),
        (2, submitted("fast", **about)),
        (3, judged("fast", 1.0, gate_version())),
        (4, admitted("fast")),
        (5, measured("fast", 0.002, 0.001, "host-a/17")),
        (6, accepted("fast")),
        (7, e.PeaksMeasured("calibrate-1", HERE.target, "peaks", {}, 1.0, "host-a/9")),
        (8, e.CostModelCalibrated("calibrate-1", HERE.target, "model", "peaks", 9, 0.1, 0.9, {})),
        (9, ended("fast")),
    )


def reasons(layout: StoreLayout, limit_days: float = 7.0, at: datetime | None = None) -> list[list[str]]:
    return [row["reasons"] for row in staleness(layout.root, limit_days, at or now()).rows]


def test_a_workload_for_which_nothing_changed_is_fresh(layout: StoreLayout) -> None:
    fresh(layout)
    assert reasons(layout) == [[]]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (captured("fast", "another", "nightly-2"), "program_changed"),
        (submitted("other", contract_hash="another"), "contract_changed"),
        (submitted("other", contract_id="x", pass_digests={"m:P": "another"}), "pass_changed"),
        (e.PeaksMeasured("calibrate-2", HERE.target, "p2", {}, 1.0, "host-b/9"), "machine_changed"),
    ],
    ids=["program", "contract", "pass", "machine"],
)
def test_a_planted_change_is_the_only_reason(layout: StoreLayout, event: e.Event, reason: str) -> None:
    fresh(layout, pass_digests={"m:P": "one"})
    assert reasons(layout) == [[]]
    write(layout, (20, event))
    assert [reason] in reasons(layout)


def test_another_toolchain_is_a_reason_only_on_this_machines_target(layout: StoreLayout) -> None:
    fresh(layout, toolchain_id="of last year")
    assert reasons(layout) == [["toolchain_changed"]]
    write(layout, (20, submitted("other", target="cuda/sm_90", toolchain_id="of last year")))
    assert all("toolchain_changed" not in found for found in reasons(layout) if "never_admitted" in found)


def test_another_gate_is_a_reason(layout: StoreLayout) -> None:
    fresh(layout)
    write(layout, (20, e.CacheAnswered("s2", subject_of("fast"), "c", "s", "g", "nightly-1", True)))
    assert reasons(layout) == [[]]
    again = judged("fast", 1.0, "gate/0")
    write(layout, (21, e.GateDecided("s3", **{key: value for key, value in vars(again).items() if key != "sweep_id"})))
    assert reasons(layout) == [["gate_changed"]]


def test_an_artifact_whose_file_is_gone_is_missing(layout: StoreLayout) -> None:
    fresh(layout)
    (layout.artifacts / f"{artifact_of('fast')}.artifact").unlink()
    assert reasons(layout) == [["artifact_missing", "baseline_missing"]]


def test_an_artifact_that_was_cut_short_is_missing_and_so_is_the_baseline_that_it_is(layout: StoreLayout) -> None:
    fresh(layout)
    (layout.artifacts / f"{artifact_of('fast')}.artifact").write_bytes(bytes(99))
    assert reasons(layout) == [["artifact_missing", "baseline_missing"]]


def test_a_baseline_whose_file_is_gone_is_missing(layout: StoreLayout) -> None:
    fresh(layout)
    write(layout, (20, accepted("fast", "older", "nightly-2")))
    assert reasons(layout) == [["baseline_missing"]]


def test_a_bisection_by_hand_is_no_workload_and_changes_none(layout: StoreLayout) -> None:
    fresh(layout)
    by_hand = e.SweepStarted("bisect-1", "s", "bisect-fast", json.dumps(CONFIG | {"pairs": 0}), "c", TARGET, "t", "{}")
    also = submitted("other", "bisect-1", contract_hash="another", pass_digests={"m:P": "another"})
    write(layout, (20, by_hand), (21, captured("fast", "another", "bisect-1")), (22, also))
    assert reasons(layout) == [[]]


def test_measurements_and_models_age_by_the_limit_that_was_asked_for(layout: StoreLayout) -> None:
    fresh(layout)
    later = now() + timedelta(days=3)
    assert reasons(layout, 3.5, later) == [[]]
    assert reasons(layout, 2.5, later) == [["measurement_older_than_limit", "model_older_than_limit"]]


def test_what_was_submitted_and_never_admitted_says_so(layout: StoreLayout) -> None:
    write(layout, (0, started()), (1, submitted("broken")), (2, ended("broken", "compile_failure", "crash")))
    assert reasons(layout) == [["never_admitted"]]


def test_the_newest_candidate_of_a_workload_counts(layout: StoreLayout) -> None:
    fresh(layout)
    write(layout, (30, submitted("fast", "nightly-2", candidate_id="newer", target=HERE.target, toolchain_id=HERE.id)))
    assert reasons(layout) == [["never_admitted"]]


def test_the_table_says_how_many_are_stale_and_why(swept: StoreLayout, farm: Farm) -> None:
    code, out, err = farm("report", "staleness", "--older-than", "3")
    assert (code, err) == (0, "")
    assert f"broken/{PIPELINE} inference {TARGET}" in out
    assert "3 of 3 workloads are stale" in out
    assert "1 never_admitted" in out


def test_an_empty_store_is_refused_with_the_next_step(layout: StoreLayout, farm: Farm) -> None:
    code, out, err = farm("report", "staleness")
    assert (code, out) == (2, "")
    assert "farm sweep" in err


def test_a_time_before_everything_is_said(swept: StoreLayout, farm: Farm) -> None:
    code, _, err = farm("report", "staleness", "--as-of", "2020-01-01")
    assert code == 2
    assert "holds no candidate before 2020-01-01T00:00:00+00:00" in err
