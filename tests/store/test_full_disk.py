"""A disk that fills up, or turns read-only, costs one clear line and nothing that was acknowledged."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tensorfarm.contract.events import Recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal

Sweep = Callable[[str], list[Recorded]]
Exactly = Callable[[StoreLayout, list[Recorded]], None]
SMALL_BYTES = 2 << 20


def mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two mebibytes, where this machine lets us mount one."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount("-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder))
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_store(small_disk: Path) -> StoreLayout:
    """A store on the small disk, made by hand: ``create`` rightly refuses one there."""
    layout = StoreLayout(small_disk / "store")
    for folder in layout.folders:
        folder.mkdir(parents=True)
    return layout


def filled(folder: Path, leave_bytes: int) -> Path:
    """Take all the space but ``leave_bytes``."""
    ballast, disk = folder / "ballast", os.statvfs(folder)
    ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - leave_bytes))
    return ballast


def large(records: list[Recorded]) -> list[Recorded]:
    return [replace(record, payload='{"reason":"' + "x" * (300 << 10) + '"}') for record in records]


def test_a_store_on_a_disk_with_too_little_space_is_refused_before_anything_is_made(small_disk: Path) -> None:
    with pytest.raises(Refusal, match=r"0\.00 GiB of free disk \(at least 1 GiB\)"):
        StoreLayout(small_disk / "store").create()
    assert list(small_disk.iterdir()) == []


def test_a_journal_on_a_full_disk_refuses_the_batch_and_keeps_what_it_had(
    small_store: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly
) -> None:
    events, later = sweep_events("s0"), sweep_events("s1")
    journal = Journal(small_store, claim_writer(small_store))
    journal.append(events)
    with pytest.raises(Refusal, match="database or disk is full") as refused:
        journal.append(large(later))
    assert "\n" not in str(refused.value)
    assert_exactly(small_store, events)
    assert journal.append(later[:3]) == 3
    assert_exactly(small_store, events + later[:3])


@pytest.mark.parametrize("leave_bytes", [0, 4096, 8192, 12288])
def test_a_seal_on_a_full_disk_is_refused_and_succeeds_when_there_is_space(
    small_store: StoreLayout, sweep_events: Sweep, assert_exactly: Exactly, leave_bytes: int
) -> None:
    earlier, later = sweep_events("s0"), sweep_events("s1")
    events = earlier + later
    journal = Journal(small_store, claim_writer(small_store))
    journal.append(earlier)
    seal(small_store)
    journal.append(later)
    ballast = filled(small_store.root, leave_bytes)
    with pytest.raises(Refusal, match="free some disk space") as refused:
        seal(small_store)
    assert "\n" not in str(refused.value)
    assert_exactly(small_store, events)
    ballast.unlink()
    assert seal(small_store) == len(later)
    assert_exactly(small_store, events)


def test_a_store_on_a_read_only_disk_is_read_and_not_written(
    small_disk: Path, small_store: StoreLayout, sweep_events: Sweep
) -> None:
    events = sweep_events("s0")
    journal = Journal(small_store, claim_writer(small_store))
    journal.append(events[:5])
    seal(small_store)
    journal.append(events[5:])
    journal.close()
    assert mount("-o", "remount,ro", str(small_disk)).returncode == 0
    with Reader(small_store) as reader:
        assert reader.events("s0") == events
    with pytest.raises(Refusal, match="not writable"):
        small_store.create()
    with pytest.raises(Refusal, match="Read-only file system"):
        claim_writer(small_store)
