"""Nothing is lost and nothing doubled between journal and lake, whoever is killed when."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.events import Recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store import sealer
from tensorfarm.farm.store.fsck import fsck
from tensorfarm.farm.store.journal import Journal, claim_writer, journal_files, journal_rows
from tensorfarm.farm.store.lake import compact, data_files, opened, table_folder
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.leases import fence
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal, seal_steps

Sweep = Callable[[str], list[Recorded]]
Exactly = Callable[[StoreLayout, list[Recorded]], None]

KILLED_AT = """
import os, signal, sys
from pathlib import Path
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.sealer import seal_steps
for done, _ in seal_steps(StoreLayout(Path(sys.argv[1]))):
    if done == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
"""
BUSY_WRITER = """
import sys
from pathlib import Path
from tensorfarm.contract.events import Measured, recorded
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.sealer import seal
layout = StoreLayout(Path(sys.argv[1]))
journal = Journal(layout, claim_writer(layout))
for number in range(10_000):
    rows = ({"variant": "eager", "p50": 1.0}, {"variant": "candidate", "p50": 0.5})
    event = Measured(sys.argv[2], f"cell {number}", "candidate", "artifact", 1.0, rows)
    journal.append([recorded(event, ts_us=number)])
    print(number, flush=True)
    if number % 3 == 2:
        seal(layout)
"""
COMPACTING = """
import sys
from pathlib import Path
from tensorfarm.farm.store.lake import compact
from tensorfarm.farm.store.layout import StoreLayout
compact(StoreLayout(Path(sys.argv[1])))
"""


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def written(layout: StoreLayout, *batches: list[Recorded]) -> list[Journal]:
    """One journal a batch, each of its own writer."""
    journals = [Journal(layout, claim_writer(layout)) for _ in batches]
    for journal, batch in zip(journals, batches, strict=True):
        journal.append(batch)
    return journals


def left(layout: StoreLayout) -> int:
    return sum(len(journal_rows(path)[1]) for path in journal_files(layout))


def test_a_seal_moves_every_row_into_every_table(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events = sweep_events("s0")
    written(layout, events[:7], events[7:])
    assert_exactly(layout, events)
    assert seal(layout) == len(events)
    assert left(layout) == 0
    assert_exactly(layout, events)
    assert seal(layout) == 0
    assert fsck(layout) == []


def test_the_tail_reads_the_same_as_what_was_sealed(layout: StoreLayout, sweep_events: Sweep) -> None:
    written(layout, sweep_events("s0"))

    def rows() -> dict[str, list[dict[str, object]]]:
        with Reader(layout) as reader:
            return {name: reader.query(f"from {name} order by all").to_pylist() for name in sealer.PROJECTED}

    before = rows()
    seal(layout)
    assert rows() == before


@pytest.mark.parametrize("planted", [*(f"appended {name}" for name in sealer.PROJECTED), "deleted w0"])
def test_a_seal_killed_between_any_two_steps_loses_and_doubles_nothing(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly, planted: str
) -> None:
    events = sweep_events("s0")
    first, _ = written(layout, events[:8], events[5:])
    child = python(KILLED_AT, str(layout.root), planted)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, f"{planted} was never reached"
    assert left(layout) > 0
    assert_exactly(layout, events)
    later = sweep_events("s1")
    first.append(later)
    assert_exactly(layout, events + later)
    seal(layout)
    assert left(layout) == 0
    assert_exactly(layout, events + later)
    assert fsck(layout) == []


def test_a_writer_killed_at_any_moment_keeps_what_it_was_told_is_kept(layout: StoreLayout) -> None:
    chosen = random.Random(0)
    for round_number in range(4):
        child = python(BUSY_WRITER, str(layout.root), f"s{round_number}")
        assert child.stdout is not None
        acknowledged = [int(line) for line in islice(child.stdout, chosen.randrange(4, 16))]
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in child.communicate(timeout=30)[0].splitlines()]
        with Reader(layout) as reader:
            kept = [event.subject for event in reader.events(f"s{round_number}")]
        # The one that was being written when the kill came may be there too: it was not denied.
        assert kept[: len(acknowledged)] == [f"cell {number}" for number in acknowledged]
        assert len(kept) <= len(acknowledged) + 1
    seal(layout)
    assert fsck(layout) == []


def test_readers_beside_a_busy_writer_see_every_acknowledged_event_once(layout: StoreLayout) -> None:
    child = python(BUSY_WRITER, str(layout.root), "s0")
    assert child.stdout is not None
    for _ in range(25):
        acknowledged = int(child.stdout.readline())
        with Reader(layout) as reader:
            seen = [event.subject for event in reader.events("s0")]
            rows = reader.query("select subject, count(*) as n from measurements group by subject").to_pylist()
        assert seen == [f"cell {number}" for number in range(len(seen))]
        assert len(seen) > acknowledged
        counts = {row["subject"]: row["n"] for row in rows}
        assert set(counts.values()) == {2}
        assert {f"cell {number}" for number in range(acknowledged + 1)} <= set(counts)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)


def test_an_event_of_two_writers_is_one_event(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events = sweep_events("s0")
    written(layout, events, events)
    assert_exactly(layout, events)
    seal(layout)
    assert_exactly(layout, events)


def test_an_event_that_was_sealed_before_is_not_sealed_again(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events = sweep_events("s0")
    (journal,) = written(layout, events)
    seal(layout)
    assert journal.append(events) == len(events)
    assert_exactly(layout, events)
    seal(layout)
    assert left(layout) == 0
    assert_exactly(layout, events)


def test_a_journal_larger_than_a_batch_is_sealed_in_several(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "BATCH_ROWS", 4)
    events = sweep_events("s0") + sweep_events("s1")
    written(layout, events)
    assert seal(layout) == len(events)
    assert_exactly(layout, events)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 1), st.integers(0, 14), st.integers(1, 9)),
    st.tuples(st.just("seal"), st.integers(1, 12)),
    st.just(("compact",)),
)


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=10))
def test_any_interleaving_of_writers_seals_and_kills_keeps_each_event_once(
    tmp_path_factory: pytest.TempPathFactory,
    sweep_events: Sweep,
    assert_exactly: Exactly,
    steps: list[tuple[str | int, ...]],
) -> None:
    layout = StoreLayout(tmp_path_factory.mktemp("store")).create()
    journals = [Journal(layout, claim_writer(layout)) for _ in range(3)]
    acknowledged: dict[str, Recorded] = {}
    for step in steps:
        match step:
            case ("append", int(writer), int(sweep), int(first), int(count)):
                batch = sweep_events(f"s{sweep}")[first : first + count]
                journals[writer].append(batch)
                acknowledged |= {record.event_id: record for record in batch}
            case ("seal", int(survived)):  # a kill after so many durable steps; 12 are more than a seal has
                running = seal_steps(layout)
                list(islice(running, survived))
                running.close()  # type: ignore[attr-defined]
            case _:
                compact(layout)
        assert_exactly(layout, list(acknowledged.values()))
    seal(layout)
    assert left(layout) == 0
    assert_exactly(layout, list(acknowledged.values()))
    for journal in journals:
        journal.close()


def test_compaction_keeps_rows_and_what_was_passed(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events = sweep_events("s0")
    (journal,) = written(layout, [])
    for event in events:
        journal.append([event])
        seal(layout)
    assert len(data_files(layout, "events", opened(layout, "events"))) == len(events)
    with Reader(layout) as before:
        assert compact(layout)["events"] == len(events)
        assert before.query("select count(*) as n from events").to_pylist() == [{"n": len(events)}]
    assert len(data_files(layout, "events", opened(layout, "events"))) == 1
    later = sweep_events("s1")
    journal.append(later)
    seal(layout)
    assert_exactly(layout, events + later)


def test_compactions_at_once_do_not_double_rows(
    layout: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events = sweep_events("s0")
    (journal,) = written(layout, [])
    for event in events:
        journal.append([event])
        seal(layout)
    children = [python(COMPACTING, str(layout.root)) for _ in range(3)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    assert_exactly(layout, events)


def test_many_seals_merge_their_files_by_themselves(
    layout: StoreLayout, sweep_events: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "MOST_FILES", 4)
    (journal,) = written(layout, [])
    for event in sweep_events("s0"):
        journal.append([event])
        seal(layout)
    assert len(data_files(layout, "events", opened(layout, "events"))) < 4


def test_a_seal_behind_a_held_fence_is_refused_and_takes_nothing(layout: StoreLayout, sweep_events: Sweep) -> None:
    written(layout, sweep_events("s0"))
    with fence(layout), pytest.raises(Refusal, match="database is locked"), fence(layout, wait_seconds=0.1):
        pass
    assert left(layout) == len(sweep_events("s0"))


def test_rows_from_before_a_column_was_added_are_read_with_nulls(layout: StoreLayout, sweep_events: Sweep) -> None:
    write_deltalake(table_folder(layout, "verdicts"), pa.table({"gate_run_id": ["before"]}))
    written(layout, sweep_events("s0"))
    seal(layout)
    with Reader(layout) as reader:
        seen = reader.query("select gate_run_id, any_value(what) as what from verdicts group by all order by 1")
    assert seen.to_pylist() == [
        {"gate_run_id": "before", "what": None},
        {"gate_run_id": "gate-alpha", "what": "output 0"},
        {"gate_run_id": "gate-beta", "what": "output 0"},
    ]


def test_what_was_required_is_read_back_and_rows_of_before_were_all_required(
    layout: StoreLayout, sweep_events: Sweep
) -> None:
    write_deltalake(table_folder(layout, "verdicts"), pa.table({"gate_run_id": ["before"]}))
    (decided,) = [event for event in sweep_events("s0") if event.type == "GateDecided"][:1]
    first, *others = json.loads(decided.payload)["findings"]
    said = [{**first, "status": "not_run", "required": False}, *others]
    payload = json.dumps({**json.loads(decided.payload), "findings": said})
    journal = Journal(layout, claim_writer(layout))
    journal.append([replace(decided, payload=payload)])
    for _ in range(2):
        with Reader(layout) as reader:
            rows = reader.query("select gate_run_id, required from verdicts order by gate_run_id, ordinal").to_pylist()
        assert [(row["gate_run_id"], row["required"]) for row in rows] == [
            ("before", True),
            ("gate-alpha", False),
            ("gate-alpha", True),
        ]
        seal(layout)
    journal.close()


def test_a_store_with_an_odd_name_is_read(tmp_path: Path, sweep_events: Sweep, assert_exactly: Exactly) -> None:
    layout = StoreLayout(tmp_path / "it's a #store, 100%").create()
    written(layout, sweep_events("s0"))
    seal(layout)
    assert_exactly(layout, sweep_events("s0"))


def test_a_store_whose_name_the_lake_would_misread_is_refused(tmp_path: Path) -> None:
    for name in ("a[b]", "a|b", "a%20b", "a*"):
        with pytest.raises(Refusal, match="in its path"):
            StoreLayout(tmp_path / name).create()
        assert not (tmp_path / name).exists()
