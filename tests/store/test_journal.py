"""Acknowledged events are on disk, once; a journal has one writer; trouble is one line."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.events import Recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.journal import Journal, claim_writer, delete_through, journal_rows
from tensorfarm.farm.store.layout import StoreLayout

Sweep = Callable[[str], list[Recorded]]
HOLDER = """
import sys
from pathlib import Path
from tensorfarm.farm.store.journal import claim_writer
from tensorfarm.farm.store.layout import StoreLayout
held = claim_writer(StoreLayout(Path(sys.argv[1])))
print(held.name, flush=True)
sys.stdin.read()
"""


def opened(layout: StoreLayout) -> Journal:
    return Journal(layout, claim_writer(layout))


def ids(journal: Journal) -> list[str]:
    return [row[1] for row in journal_rows(journal.path)[1]]


def test_what_was_acknowledged_is_read_back_in_order(layout: StoreLayout, sweep_events: Sweep) -> None:
    journal, events = opened(layout), sweep_events("s0")
    assert journal.append(events) == len(events)
    assert [Recorded(*row[1:]) for row in journal_rows(journal.path)[1]] == events


def test_writing_the_same_event_twice_is_one_event(layout: StoreLayout, sweep_events: Sweep) -> None:
    journal, events = opened(layout), sweep_events("s0")
    assert journal.append([*events[:3], *events[:3]]) == 3
    assert journal.append(events[:4]) == 1
    assert ids(journal) == [event.event_id for event in events[:4]]


@settings(max_examples=20, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8))
def test_any_repetition_of_appends_keeps_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, sweep_events: Sweep, batches: list[list[int]]
) -> None:
    layout = StoreLayout(tmp_path_factory.mktemp("store")).create()
    journal, events = opened(layout), sweep_events("s0")
    added = sum(journal.append([events[number] for number in batch]) for batch in batches)
    wanted = list(dict.fromkeys(events[number].event_id for batch in batches for number in batch))
    assert ids(journal) == wanted
    assert added == len(wanted)
    journal.close()


def test_a_batch_that_cannot_be_kept_whole_is_not_kept_at_all(layout: StoreLayout, sweep_events: Sweep) -> None:
    journal, events = opened(layout), sweep_events("s0")
    lacking = replace(events[2], payload=None)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        journal.append([events[0], events[1], lacking])
    assert ids(journal) == []
    assert journal.append(events[:1]) == 1


def test_sequence_numbers_are_never_used_again(layout: StoreLayout, sweep_events: Sweep) -> None:
    journal, events = opened(layout), sweep_events("s0")
    journal.append(events[:5])
    delete_through(journal.path, 5)
    journal.append(events[5:6])
    assert [row[0] for row in journal_rows(journal.path)[1]] == [6]


def test_a_journal_that_was_deleted_comes_back_as_another_writer(layout: StoreLayout) -> None:
    first = opened(layout)
    first.close()
    for path in layout.journal.glob("w0.sqlite*"):
        path.unlink()
    second = opened(layout)
    assert second.path == first.path
    assert second.writer != first.writer


def test_two_claims_never_give_one_name(layout: StoreLayout) -> None:
    held = [claim_writer(layout) for _ in range(3)]
    assert [writer.name for writer in held] == ["w0", "w1", "w2"]
    held[1].release()
    assert claim_writer(layout).name == "w1"


def test_a_name_held_by_another_process_is_passed_over_until_that_process_is_killed(layout: StoreLayout) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(layout.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "w0"
    beside = claim_writer(layout)
    assert beside.name == "w1"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    assert claim_writer(layout).name == "w0"


def test_a_file_that_is_no_journal_is_refused_in_one_line(layout: StoreLayout) -> None:
    (layout.journal / "w0.sqlite").write_bytes(b"this is not a database" * 500)
    with pytest.raises(Refusal, match="file is not a database") as refused:
        opened(layout)
    assert "\n" not in str(refused.value)
    assert "fsck" in refused.value.next_step


def test_a_store_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="is a file") as refused:
        StoreLayout(tmp_path / "file" / "store").create()
    assert refused.value.exit_code == 2


def test_a_store_is_made_whole(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path / "a" / "b").create()
    assert all(folder.is_dir() for folder in layout.folders)
    assert layout.create() == layout
