"""A workload's life on a real store, without Ray: first baseline, creep, nominated, confirmed, fixed, and a person."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tensorfarm.contract import events as e
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.baselines import accept, baselines, pin
from tensorfarm.farm.app.regression import RegressionDesk, workload_of
from tensorfarm.farm.cli.baseline import register
from tensorfarm.farm.measure.baseline import ANCHOR, LAST_ACCEPTED
from tensorfarm.farm.measure.verdict import Answer
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

CELL, PROGRAM, PIPELINE = "mlp/fx:dce", "mlp", "fx:dce"
WORKLOAD = workload_of(PROGRAM, PIPELINE, "inference", "cpu")


def row(variant: str, p50: float) -> dict[str, Any]:
    return {"metric": "step_seconds", "unit": "s", "variant": variant, "device": "cpu", "samples": [p50], "p50": p50}


@dataclass
class Nightly:
    """Sweeps one cell again and again, as the driver does with the desk's answers."""

    layout: StoreLayout
    clock: Any = field(default_factory=lambda: itertools.count(1_700_000_000_000_000, 1_000_000))
    nights: int = 0

    def swept(
        self, artifact: str, speed: float, found: dict[str, tuple[Answer, float]] | None = None, program: str = "same"
    ) -> list[e.Event]:
        """One night: ``artifact`` takes ``speed`` times eager's time; ``found`` is what a comparison would say."""
        self.nights += 1
        sweep_id = f"night-{self.nights}"
        known = {"candidate_id": f"candidate-{artifact}", "artifact_sha256": artifact}
        started = e.SweepStarted(sweep_id, sweep_id, "nightly", "{}", "c", "cpu", "t", "{}")
        self.record([started, self.submitted(sweep_id, artifact, program)])
        self.record(
            [e.Measured(sweep_id, CELL, **known, seconds=1, measurements=(row("eager", 1), row("candidate", speed)))]
        )
        desk = RegressionDesk(self.layout, sweep_id, 0.05)
        told = desk.considered(CELL, WORKLOAD, **known)
        self.record(told)
        if not any(map(nominated, told)):
            return told
        compared = [self.compared(event, (found or {})[event.baseline]) for event in told if nominated(event)]
        self.record(compared)
        settled = desk.settled(CELL, WORKLOAD, **known, compared=compared)
        self.record(settled)
        return [*told, *settled]

    def submitted(self, sweep_id: str, artifact: str, program: str) -> e.Event:
        return e.CandidateSubmitted(
            sweep_id,
            CELL,
            f"candidate-{artifact}",
            PROGRAM,
            program,
            "spec",
            "inference",
            "fx",
            PIPELINE,
            "cpu",
            "t",
            "c",
            "h",
            "f",
        )

    def compared(self, event: e.Event, found: tuple[Answer, float]) -> e.Compared:
        assert isinstance(event, e.RegressionNominated)
        answer, ratio = found
        about = (
            event.candidate_id,
            event.artifact_sha256,
            event.baseline,
            event.baseline_artifact,
            "step_seconds",
            "cpu",
        )
        return e.Compared(event.sweep_id, CELL, *about, answer, ratio, ratio, ratio, 1.01, 0.05, "in pairs", 1.0)

    def record(self, events: Sequence[e.Event]) -> None:
        ts_us = next(self.clock)
        with closing(Journal(self.layout, claim_writer(self.layout))) as journal:
            records = [
                e.recorded(event, ts_us=ts_us, ordinal=int(getattr(event, "baseline", "") == ANCHOR))
                for event in events
            ]
            assert journal.append(records) == len(events)

    def open(self) -> list[dict[str, Any]]:
        with Reader(self.layout) as reader:
            return reader.named("open_regressions", workload=WORKLOAD).to_pylist()

    def baseline(self, kind: str) -> str:
        return next(item["artifact_sha256"] for item in baselines(self.layout.root) if item["kind"] == kind)


def nominated(event: e.Event) -> bool:
    return isinstance(event, e.RegressionNominated)


def kinds(events: Sequence[e.Event]) -> list[str]:
    return [type(event).__name__.removeprefix("Regression") for event in events]


SLOWER = {LAST_ACCEPTED: (Answer.WORSE, 1.4), ANCHOR: (Answer.WORSE, 1.4)}
EQUAL = {LAST_ACCEPTED: (Answer.NO_WORSE, 1.0), ANCHOR: (Answer.NO_WORSE, 1.0)}
UNCLEAR = {LAST_ACCEPTED: (Answer.INCONCLUSIVE, 1.1), ANCHOR: (Answer.INCONCLUSIVE, 1.1)}


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return Nightly(StoreLayout(tmp_path / "store").create())


def test_the_first_artifact_is_both_baselines_and_the_same_bytes_say_nothing_more(nightly: Nightly) -> None:
    assert kinds(nightly.swept("a", 1.0)) == ["BaselineAccepted", "BaselineAccepted"]
    assert nightly.swept("a", 1.3) == []


def test_an_artifact_that_looks_no_slower_is_accepted_without_a_comparison(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    assert kinds(nightly.swept("b", 1.01)) == ["BaselineAccepted"]
    assert (nightly.baseline(LAST_ACCEPTED), nightly.baseline(ANCHOR)) == ("b", "a")


def test_a_slow_down_is_nominated_confirmed_and_fixed(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    assert kinds(nightly.swept("slow", 1.4, SLOWER)) == ["Nominated", "Confirmed"]
    assert [(item["artifact_sha256"], item["ratio"]) for item in nightly.open()] == [("slow", 1.4)]
    assert nightly.baseline(LAST_ACCEPTED) == "a"
    assert kinds(nightly.swept("b", 1.0, EQUAL)) == ["Nominated", "Fixed", "BaselineAccepted"]
    assert nightly.open() == []
    assert nightly.baseline(LAST_ACCEPTED) == "b"


def test_a_regression_is_opened_once_and_stays_open_until_it_is_fixed(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    first = nightly.open()
    assert kinds(nightly.swept("slower", 1.5, SLOWER)) == ["Nominated", "Confirmed"]
    assert kinds(nightly.swept("foggy", 1.0, UNCLEAR)) == ["Nominated", "Dismissed"]
    assert [item["regression_id"] for item in nightly.open()] == [first[0]["regression_id"]]
    assert nightly.baseline(LAST_ACCEPTED) == "a"


def test_bytes_that_were_confirmed_to_be_slower_need_no_second_measurement(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    assert kinds(nightly.swept("slow", 1.0)) == ["Confirmed"]


def test_going_back_to_the_baselines_own_bytes_fixes_it(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    assert kinds(nightly.swept("a", 1.4)) == ["Fixed"]
    assert nightly.open() == []


def test_a_nomination_that_pairs_do_not_confirm_is_dismissed(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    assert kinds(nightly.swept("b", 1.4, EQUAL)) == ["Nominated", "Dismissed", "BaselineAccepted"]
    assert kinds(nightly.swept("c", 2.0, {**UNCLEAR, ANCHOR: (Answer.NO_WORSE, 1.0)})) == [
        "Nominated",
        "Nominated",
        "Dismissed",
        "Dismissed",
    ]
    assert nightly.open() == []
    assert nightly.baseline(LAST_ACCEPTED) == "b"


def test_many_small_steps_are_caught_against_the_anchor(nightly: Nightly) -> None:
    seen = [nightly.swept(f"step {number}", 1.015**number, SLOWER) for number in range(4)]
    confirmed = [event for event in itertools.chain(*seen) if isinstance(event, e.RegressionConfirmed)]
    assert {event.baseline for event in confirmed} == {ANCHOR}
    assert confirmed[0].artifact_sha256 == "step 2"
    assert nightly.baseline(LAST_ACCEPTED) == "step 3"


def test_a_program_that_computes_something_else_begins_again(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    assert kinds(nightly.swept("other", 3.0, program="another")) == ["Fixed", "BaselineAccepted", "BaselineAccepted"]
    assert nightly.open() == []


def test_a_person_accepts_a_slow_down_that_was_meant(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    accept(nightly.layout.root, "candidate-slow", "more exact now")
    assert nightly.open() == []
    assert (nightly.baseline(LAST_ACCEPTED), nightly.baseline(ANCHOR)) == ("slow", "slow")
    assert nightly.swept("slow", 1.4) == []
    with Reader(nightly.layout) as reader:
        newest = reader.query("select message from regressions where state = 'fixed'").to_pylist()
    assert newest == [{"message": "accepted by a person: more exact now"}]


def test_an_anchor_is_pinned_by_candidate_or_for_a_whole_sweep(nightly: Nightly) -> None:
    for artifact in "abc":
        nightly.swept(artifact, 1.0)
    pin(nightly.layout.root, "candidate-b")
    assert (nightly.baseline(LAST_ACCEPTED), nightly.baseline(ANCHOR)) == ("c", "b")
    pin(nightly.layout.root, "night-3")
    assert nightly.baseline(ANCHOR) == "c"


def test_a_sweep_may_be_named_by_its_beginning_where_that_begins_nothing_else(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    pin(nightly.layout.root, "nigh")
    assert nightly.baseline(ANCHOR) == "a"


def test_what_cannot_be_a_baseline_is_refused_in_one_line(nightly: Nightly) -> None:
    root = nightly.layout.root
    with pytest.raises(Refusal, match="has no baseline"):
        baselines(root)
    nightly.swept("a", 1.0)
    nightly.swept("b", 1.0)
    nightly.record([nightly.submitted("night-0", "unmeasured", "same")])
    with pytest.raises(Refusal, match="'nobody' names no candidate of"):
        accept(root, "nobody", "x")
    with pytest.raises(Refusal, match="too short"):
        accept(root, "can", "x")
    with pytest.raises(Refusal, match="never measured"):
        accept(root, "candidate-unmeasured", "x")
    with pytest.raises(Refusal, match="'candidate-' names 3 candidates"):
        accept(root, "candidate-", "x")
    with pytest.raises(Refusal, match="'night-9' names no candidate or sweep"):
        pin(root, "night-9")
    with pytest.raises(
        Refusal, match=r"'night-' names 2 candidates or sweeps \(night-2 \(sweep\); night-1 \(sweep\)\)"
    ):
        pin(root, "night-")


def test_the_command_accepts_and_lists(nightly: Nightly) -> None:
    nightly.swept("a", 1.0)
    nightly.swept("slow", 1.4, SLOWER)
    farm = typer.Typer()
    register(farm)
    store = ["--store", str(nightly.layout.root)]
    done = CliRunner().invoke(farm, ["baseline", "accept", "candidate-s", "--because", "meant", *store])
    assert done.exit_code == 0, done.output
    assert done.output == f"accepted slow for {WORKLOAD}\n"
    listed = CliRunner().invoke(farm, ["baseline", "list", "--json", *store])
    told = [(item["kind"], item["artifact_sha256"], item["accepted_by"]) for item in json.loads(listed.output)]
    assert told == [(LAST_ACCEPTED, "slow", "person"), (ANCHOR, "slow", "person")]
    assert "1.400" in CliRunner().invoke(farm, ["baseline", "list", *store]).output
