"""What a person says of baselines: an intended slow-down is accepted, an anchor is pinned. Events like any."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tensorfarm.contract.events import BaselineAccepted, Event, RegressionFixed, recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.named_candidate import SHOWN_DIGITS, candidate_named, candidates_named, several
from tensorfarm.farm.app.run_id import new_run_id
from tensorfarm.farm.measure.baseline import ANCHOR, KINDS, METRIC
from tensorfarm.farm.measure.verdict import Answer
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


def baselines(store: Path) -> list[dict[str, Any]]:
    """Rows of the query ``workload_baselines``. Refuses a store that has none."""
    with Reader(StoreLayout(store)) as reader:
        rows = reader.named("workload_baselines", workload="").to_pylist()
    if not rows:
        raise Refusal(f"store {store} has no baseline", next_step='run "farm sweep CONFIG": the first artifact is one')
    return rows


def accept(store: Path, candidate: str, reason: str) -> list[dict[str, Any]]:
    """From now on CANDIDATE is what its workloads are compared with, as last accepted and as anchor.

    The anchor moves along: a slow-down that a person meant would be found against the old one in the next sweep.
    Returns what was accepted, a row a workload. Refuses a candidate that is unknown or was never measured.
    """
    return _said(store, _measured(store, candidate), KINDS, reason)


def pin(store: Path, name: str) -> list[dict[str, Any]]:
    """Pin the anchor of a candidate's workloads, or of every measured cell of a sweep. Refuses as ``accept`` does."""
    return _said(store, _measured(store, name, sweeps=True), (ANCHOR,), "pinned")


def _measured(store: Path, name: str, *, sweeps: bool = False) -> list[dict[str, Any]]:
    what = "candidate or sweep" if sweeps else "candidate"
    with Reader(StoreLayout(store)) as reader:
        if sweep_id := _sweep_named(reader, name) if sweeps else "":
            rows = reader.named("workload_measured", candidate="", sweep_id=sweep_id).to_pylist()
        else:
            candidate_id = candidate_named(reader, name, what).candidate_id
            rows = reader.named("workload_measured", candidate=candidate_id, sweep_id="").to_pylist()
    if not rows:
        raise Refusal(
            f"{what} {name} was never measured",
            limit="a baseline is an admitted artifact with measurements",
            next_step='run "farm sweep CONFIG"',
        )
    return rows


def _sweep_named(reader: Reader, name: str) -> str:
    """The one sweep whose id this is or begins so; empty where there is none. Refuses what begins several things."""
    found = [row["sweep_id"] for row in reader.named("sweeps").to_pylist() if row["sweep_id"].startswith(name)]
    if not found or name in found:
        return name if found else ""
    candidates = candidates_named(reader, name)
    if len(found) + len(candidates) > 1:
        listed = [(item.candidate_id[:SHOWN_DIGITS], item.subject) for item in candidates]
        raise several(name, "candidates or sweeps", [*((sweep_id, "sweep") for sweep_id in found), *listed])
    return found[0]


def _said(store: Path, rows: Sequence[dict[str, Any]], kinds: Sequence[str], reason: str) -> list[dict[str, Any]]:
    layout = StoreLayout(store)
    run = new_run_id("baseline")
    told: list[Event] = []
    with Reader(layout) as reader:
        for row in rows:
            told += [_accepted(run, row, kind, reason) for kind in kinds]
            regressions = reader.named("open_regressions", workload=row["workload"]).to_pylist()
            told += [_closed(run, row, item, reason) for item in regressions if item["baseline"] in kinds]
    with closing(Journal(layout, claim_writer(layout))) as journal:
        ts_us = time.time_ns() // 1000
        journal.append(recorded(event, ts_us=ts_us, ordinal=number) for number, event in enumerate(told))
    return list(rows)


def _accepted(run: str, row: dict[str, Any], kind: str, reason: str) -> BaselineAccepted:
    return BaselineAccepted(
        run,
        row["subject"],
        row["workload"],
        row["candidate_id"],
        row["artifact_sha256"],
        baseline=kind,
        metric=METRIC,
        by="person",
        reason=reason,
    )


def _closed(run: str, row: dict[str, Any], regression: dict[str, Any], reason: str) -> RegressionFixed:
    """What was open against the baseline before is no question any more."""
    return RegressionFixed(
        run,
        row["subject"],
        regression_id=regression["regression_id"],
        workload=row["workload"],
        candidate_id=row["candidate_id"],
        artifact_sha256=row["artifact_sha256"],
        baseline=regression["baseline"],
        baseline_artifact=regression["baseline_artifact"],
        metric=METRIC,
        device=row["device"],
        ratio=regression["ratio"],
        ratio_lower=regression["ratio_lower"],
        ratio_upper=regression["ratio_upper"],
        smallest_detectable=regression["smallest_detectable"],
        verdict=Answer.WORSE,
        message=f"accepted by a person: {reason}",
    )
