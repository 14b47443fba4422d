"""One moment of lake and journals, for reading only; SQL that fails is one line."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tensorfarm.contract.events import ArtifactAdmitted, CacheAnswered, Recorded, SweepInterrupted, decoded, recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store import reader as reader_module
from tensorfarm.farm.store import sealer
from tensorfarm.farm.store.fsck import fsck
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.lake import append, data_files, opened
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.named_query import named_query
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal, seal_steps
from tensorfarm.farm.store.tables import SCHEMAS
from tensorfarm.farm.store.tail import snapshots

Sweep = Callable[[str], list[Recorded]]
Exactly = Callable[[StoreLayout, list[Recorded]], None]


@pytest.fixture
def journal(layout: StoreLayout) -> Journal:
    return Journal(layout, claim_writer(layout))


@pytest.fixture
def half_sealed(layout: StoreLayout, journal: Journal, sweep_events: Sweep) -> StoreLayout:
    """Sweep s0 in the lake, sweep s1 in the journal."""
    journal.append(sweep_events("s0"))
    seal(layout)
    journal.append(sweep_events("s1"))
    return layout


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file of the store, but SQLite's shared-memory scratch."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix not in (".sqlite-shm", ".sqlite-wal")
    }


def test_events_come_back_as_they_were_recorded(half_sealed: StoreLayout, sweep_events: Sweep) -> None:
    with Reader(half_sealed) as reader:
        assert reader.events("s0") == sweep_events("s0")
        assert reader.events("s1") == sweep_events("s1")
        assert reader.events("s2") == []
        assert [decoded(record) for record in reader.events("s1")] == [decoded(item) for item in sweep_events("s1")]


def test_infinities_and_tiny_numbers_keep_their_value(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        rows = reader.query(
            "select observed_over_limit as over, worst_seen, worst_index, status from verdicts where status = 'fail'"
        ).to_pylist()
    assert rows == [{"over": float("inf"), "worst_seen": 1e-300, "worst_index": [0, 3], "status": "fail"}] * 2


def test_samples_stay_in_run_order(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        rows = reader.query(
            "select variant, samples, p50 from measurements"
            " where sweep_id = 's1' and metric = 'step_seconds' order by variant"
        ).to_pylist()
    assert rows == [
        {"variant": "candidate", "samples": [0.55, 0.5, 0.45], "p50": 0.5},
        {"variant": "eager", "samples": [1.1, 1.0, 0.9], "p50": 1.0},
    ]


def test_a_manifest_is_one_row_a_decision(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        rows = reader.query(
            "select ordinal, name, attributes['limit'] as bound from manifests"
            " where sweep_id = 's0' and candidate_id = 'candidate-alpha' order by 1"
        ).to_pylist()
    assert rows == [{"ordinal": 0, "name": "dce", "bound": "64"}, {"ordinal": 1, "name": "cse", "bound": "64"}]


def test_every_table_can_be_queried_before_anything_was_written(layout: StoreLayout) -> None:
    with Reader(layout) as reader:
        for name, schema in SCHEMAS.items():
            assert reader.query(f"from {name}").schema.names == schema.names


def test_a_reader_keeps_its_moment_while_a_seal_and_a_compaction_go_on(
    half_sealed: StoreLayout, journal: Journal, sweep_events: Sweep
) -> None:
    with Reader(half_sealed) as reader:
        journal.append(sweep_events("s2"))
        seal(half_sealed)
        assert reader.query("select count(distinct sweep_id) as n from events").to_pylist() == [{"n": 2}]
        assert reader.events("s1") == sweep_events("s1")


def test_a_reader_between_any_two_steps_of_a_seal_sees_everything_once(
    half_sealed: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    everything = sweep_events("s0") + sweep_events("s1")
    for _ in seal_steps(half_sealed):
        assert_exactly(half_sealed, everything)


@pytest.mark.parametrize("pinned_before", [None, 0, 1, 5, 9])
def test_a_seal_in_the_middle_of_opening_a_reader_loses_and_doubles_nothing(
    layout: StoreLayout, journal: Journal, sweep_events: Sweep, assert_exactly: Exactly, pinned_before: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Planted: a whole seal before the journals are read (None), or after so many tables were pinned.

    Both writers hold all events, in an order by which a seal in small batches chooses otherwise than a reader would.
    """
    events, other = sweep_events("s0"), Journal(layout, claim_writer(layout))
    journal.append([*events[6:], *events[:6]])
    other.append(events)
    monkeypatch.setattr(sealer, "BATCH_ROWS", 4)
    left = [pinned_before]

    def sealing(layout: StoreLayout, *rest: str) -> object:
        if left[0] == 0 or not rest:
            seal(layout)
        left[0] = left[0] - 1 if left[0] is not None else None
        return opened(layout, *rest) if rest else snapshots(layout)

    monkeypatch.setattr(reader_module, "snapshots" if pinned_before is None else "opened", sealing)
    assert_exactly(layout, events)


def test_as_of_keeps_what_was_recorded_until_then_sealed_or_not(half_sealed: StoreLayout, sweep_events: Sweep) -> None:
    moment = datetime.fromtimestamp(sweep_events("s0")[4].ts_us / 1e6, UTC)
    for _ in range(2):
        with Reader(half_sealed, as_of=moment) as reader:
            assert reader.events("s0") == sweep_events("s0")[:5]
            assert reader.events("s1") == sweep_events("s1")[:5]
            assert reader.query("select max(ts) <= $$2023-11-15$$ as early from verdicts").to_pylist() == [
                {"early": True}
            ]
        seal(half_sealed)
    with Reader(half_sealed, as_of=moment - timedelta(days=1)) as reader:
        assert reader.query("select count(*) as n from events").to_pylist() == [{"n": 0}]


def test_reading_changes_no_file(half_sealed: StoreLayout) -> None:
    before = snapshot(half_sealed.root)
    with Reader(half_sealed) as reader:
        reader.named("report_sweep", sweep_id="s0")
    assert snapshot(half_sealed.root) == before


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to '{file}'",
        "select * from read_csv('/etc/passwd')",
        "select * from '{file}'",
        "attach '{file}'",
        "create table mine as select 1",
        "delete from tail.events",
        "drop view events",
        "set enable_external_access = true",
        "select 1; drop view events",
        "explain analyze copy (select 1) to '{file}'",
        "install httpfs",
        "",
    ],
)
def test_sql_that_does_more_than_read_the_tables_is_refused_in_one_line(
    half_sealed: StoreLayout, tmp_path: Path, sweep_events: Sweep, sql: str
) -> None:
    with Reader(half_sealed) as reader:
        with pytest.raises(Refusal) as refused:
            reader.query(sql.format(file=tmp_path / "out.csv"))
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == 2
        assert not (tmp_path / "out.csv").exists()
        assert reader.query("select count(*) as n from events").to_pylist() == [{"n": 2 * len(sweep_events("s0"))}]


@pytest.mark.parametrize(
    ("sql", "fact"),
    [
        ("select nothing from events", "nothing"),
        ("selec 1", "syntax error"),
        ("from evnts", "evnts"),
        ("select error('planted')", "planted"),
    ],
)
def test_sql_that_fails_says_so_in_one_line(half_sealed: StoreLayout, sql: str, fact: str) -> None:
    with Reader(half_sealed) as reader, pytest.raises(Refusal, match=fact) as refused:
        reader.query(sql)
    assert "\n" not in str(refused.value)


def test_descriptions_and_plans_may_be_read(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        assert reader.query("describe events").num_rows == len(SCHEMAS["events"])
        assert reader.query("show tables").column("name").to_pylist() == sorted(SCHEMAS)
        assert reader.query("explain from events").num_rows > 0


def test_a_store_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="there is no store") as refused:
        Reader(StoreLayout(tmp_path / "none"))
    assert "farm sweep" in refused.value.next_step
    assert not (tmp_path / "none").exists()


def test_an_unreadable_table_is_refused_in_one_line(half_sealed: StoreLayout) -> None:
    (half_sealed.lake / "events" / "_delta_log" / f"{0:020d}.json").write_text("{torn")
    with pytest.raises(Refusal, match="table events") as refused:
        Reader(half_sealed)
    assert "\n" not in str(refused.value)
    assert any("table events" in finding for finding in fsck(half_sealed))


def test_an_unknown_named_query_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Refusal, match="report_sweep"):
        named_query("nope")


def test_a_sweep_report_has_one_row_a_cell(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        alpha, beta = reader.named("report_sweep", sweep_id="s1").to_pylist()
    assert alpha["outcome"] == "admitted"
    assert (alpha["program"], alpha["backend"], alpha["pipeline"], alpha["mode"]) == (
        "alpha",
        "fx",
        "fx:dce",
        "training",
    )
    assert (alpha["forward_over_limit"], alpha["gradient_over_limit"]) == (0.25, 0.5)
    assert (alpha["compile_seconds"], alpha["gate_seconds"], alpha["bench_seconds"]) == (1.5, 0.5, 2.0)
    assert (alpha["eager_p50_seconds"], alpha["candidate_p50_seconds"], alpha["speedup"]) == (1.0, 0.5, 2.0)
    assert alpha["artifact_sha256"] == "artifact-alpha"
    assert alpha["cached"] is False
    assert (beta["outcome"], beta["forward_over_limit"], beta["speedup"]) == ("conformance_failure", float("inf"), None)


def test_a_cell_that_the_cache_answered_reports_the_earlier_verdict_and_speed(
    half_sealed: StoreLayout, journal: Journal, sweep_events: Sweep
) -> None:
    submitted, ended = (next(item for item in sweep_events("s2") if item.type == name) for name in
                        ("CandidateSubmitted", "CandidateEnded"))  # fmt: skip
    answer = CacheAnswered("s2", submitted.subject, "candidate-alpha", "artifact-alpha", "gate-alpha", "s0", True)
    journal.append([submitted, recorded(answer, ts_us=submitted.ts_us + 1), ended])
    with Reader(half_sealed) as reader:
        (row,) = reader.named("report_sweep", sweep_id="s2").to_pylist()
    assert (row["outcome"], row["cached"], row["compile_seconds"]) == ("admitted", True, None)
    assert (row["forward_over_limit"], row["speedup"]) == (0.25, 2.0)


def test_only_admitted_artifacts_can_answer(half_sealed: StoreLayout, sweep_events: Sweep) -> None:
    with Reader(half_sealed) as reader:
        rows = reader.named(
            "admitted", candidate_ids=["candidate-alpha", "candidate-beta", "candidate-gamma"]
        ).to_pylist()
        assert reader.named("admitted", candidate_ids=[]).num_rows == 0
    (row,) = rows
    gate = next(item for item in sweep_events("s1") if item.type == "GateDecided")
    measured = next(item for item in sweep_events("s1") if item.type == "Measured")
    assert (row["candidate_id"], row["artifact_sha256"], row["uri"]) == (
        "candidate-alpha", "artifact-alpha", "artifacts/artifact-alpha")  # fmt: skip
    assert (row["gate_run_id"], row["gate_version"]) == ("gate-alpha", "1")
    assert json.loads(row["findings"]) == json.loads(gate.payload)["findings"]
    assert json.loads(row["measurements"]) == json.loads(measured.payload)["measurements"]


def test_the_newest_admission_answers(half_sealed: StoreLayout, journal: Journal, sweep_events: Sweep) -> None:
    newer = ArtifactAdmitted("s3", "alpha/fx", "candidate-alpha", "5e", "artifact-new", 5, "artifacts/new", "gate-new")
    journal.append([recorded(newer, ts_us=sweep_events("s1")[-1].ts_us + 1)])
    with Reader(half_sealed) as reader:
        (row,) = reader.named("admitted", candidate_ids=["candidate-alpha"]).to_pylist()
    assert (row["artifact_sha256"], row["gate_run_id"], row["findings"]) == ("artifact-new", "gate-new", "[]")


def test_sweeps_say_how_they_ended(half_sealed: StoreLayout, journal: Journal, sweep_events: Sweep) -> None:
    stopped = SweepInterrupted("s2", "sweep", "SIGINT")
    journal.append([*sweep_events("s2")[:4], recorded(stopped, ts_us=sweep_events("s2")[4].ts_us)])
    journal.append([replace(sweep_events("s3")[0], ts_us=1)])
    with Reader(half_sealed) as reader:
        rows = {row["sweep_id"]: row for row in reader.named("sweeps").to_pylist()}
    assert {name: (row["state"], row["exit_code"]) for name, row in rows.items()} == {
        "s0": ("finished", 13),
        "s1": ("finished", 13),
        "s2": ("interrupted", None),
        "s3": ("unfinished", None),
    }


def test_measurements_are_summed_up_by_variant(half_sealed: StoreLayout) -> None:
    with Reader(half_sealed) as reader:
        rows = reader.named("measurement_summary").to_pylist()
    assert [(row["metric"], row["variant"], row["series"], row["median_p50"]) for row in rows] == [
        ("paired_step_seconds", "baseline", 2, 0.4),
        ("paired_step_seconds", "candidate", 2, 0.5),
        ("step_seconds", "candidate", 2, 0.5),
        ("step_seconds", "eager", 2, 1.0),
    ]


@pytest.mark.parametrize("payload", ["{not json", "[1]", "7"])
def test_a_malformed_event_is_refused_in_one_line_and_fsck_says_where_it_is(
    half_sealed: StoreLayout, payload: str
) -> None:
    """Even after a seal got half way with it."""
    (path,) = half_sealed.journal.glob("*.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        (seq,) = connection.execute("select max(seq) from events where type = 'CandidateEnded'").fetchone()
        connection.execute("update events set payload = ? where seq = ?", (payload, seq))
    found = [f"journal {path.name}: event {seq} (CandidateEnded) has a payload that is no JSON object"]
    assert fsck(half_sealed) == found
    if payload == "{not json":
        with pytest.raises(Refusal, match="malformed event") as refused, Reader(half_sealed):
            pass
        assert refused.value.next_step == 'run "farm store fsck"'
        with pytest.raises(Refusal, match="malformed event"):
            seal(half_sealed)
        assert fsck(half_sealed) == found


def test_fsck_finds_a_doubled_event_an_orphan_and_a_lost_file(half_sealed: StoreLayout) -> None:
    assert fsck(half_sealed) == []
    with Reader(half_sealed) as reader:
        doubled = reader.query("from events order by ts, writer, seq limit 1").cast(SCHEMAS["events"])
        orphan = reader.query("select * replace ('stray' as event_id) from verdicts limit 1").cast(SCHEMAS["verdicts"])
    append(half_sealed, "events", doubled, {})
    append(half_sealed, "verdicts", orphan, {})
    event_id = doubled.column("event_id")[0].as_py()
    assert fsck(half_sealed) == [
        f"table events: event {event_id} is there 2 times",
        "table verdicts: 1 rows of event stray, which is in no table",
    ]
    lost = data_files(half_sealed, "verdicts", opened(half_sealed, "verdicts"))[0]
    lost.unlink()
    assert fsck(half_sealed) == [f"table verdicts: {lost.name} is in the log and not on disk"]
