"""Where everything of one store lies. One folder holds a farm's whole memory; nothing of it is anywhere else.

Invariant: ``create`` either leaves a complete, writable store or refuses and leaves the disk as it was.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tensorfarm.contract.refusal import Refusal

REQUIRED_FREE_BYTES = 1 << 30
_GIB = 1 << 30
# What delta-rs 1.6 cannot turn into a URL and back (it panics, or writes elsewhere), and DuckDB's patterns.
_UNUSABLE = re.compile(r"[\[\]|^\\*?]|%[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class StoreLayout:
    """Names of the folders below ``root``. Making one touches no disk."""

    root: Path

    @property
    def journal(self) -> Path:
        """SQLite journals, one a writer: events that were acknowledged and not yet sealed."""
        return self.root / "journal"

    @property
    def lake(self) -> Path:
        """Delta tables, one folder each."""
        return self.root / "lake"

    @property
    def programs(self) -> Path:
        """Captured programs, addressed by their content."""
        return self.root / "programs"

    @property
    def built(self) -> Path:
        """Artifacts as compiled, before any gate: nothing here may be served."""
        return self.root / "built"

    @property
    def artifacts(self) -> Path:
        """The artifact cache: only bytes that a gate has passed."""
        return self.root / "artifacts"

    @property
    def oracle(self) -> Path:
        """The judge's reference results, kept per program and contract."""
        return self.root / "oracle"

    @property
    def work(self) -> Path:
        """Scratch of running jobs; may be deleted between sweeps."""
        return self.root / "work"

    def judging(self, sweep_id: str) -> Path:
        """What the gate runs of a sweep leave for one another: gone with each run, all of it with the sweep's end."""
        return self.work / f"gate-{sweep_id}"

    @property
    def leases(self) -> Path:
        """SQLite file whose write lock is the fence around every change of the lake."""
        return self.root / "leases.sqlite"

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.journal, self.lake, self.programs, self.built, self.artifacts, self.oracle, self.work)

    def create(self) -> StoreLayout:
        """Make what is missing. Refuses where the path is not writable or less than 1 GiB is free."""
        if unusable := _UNUSABLE.search(str(self.root.absolute())):
            raise Refusal(
                f"store {self.root} has {unusable.group()!r} in its path",
                limit="a path without [ ] | ^ \\ * ? and %-escapes",
                next_step="name another folder with --store",
            )
        standing = _nearest_folder(self.root)
        if not os.access(standing, os.W_OK | os.X_OK):
            raise Refusal(
                f"store {self.root} is not writable",
                limit=f"{standing} belongs to somebody else or is mounted read-only",
                next_step="name a folder of your own with --store",
            )
        free = shutil.disk_usage(standing).free
        if free < REQUIRED_FREE_BYTES:
            raise Refusal(
                f"store {self.root} has {free / _GIB:.2f} GiB of free disk",
                limit=f"at least {REQUIRED_FREE_BYTES / _GIB:.0f} GiB",
                next_step="free some space, or name a folder on another disk with --store",
            )
        try:
            for folder in self.folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(
                f"store {self.root} cannot be created: {error.strerror}",
                next_step="name a folder of your own with --store",
            ) from None
        return self

    def existing(self) -> StoreLayout:
        """Itself, where there is a store. Refuses where there is none: reading must not create one."""
        if not (self.journal.is_dir() or self.lake.is_dir()):
            raise Refusal(
                f"there is no store at {self.root}",
                limit="a folder with journal/ or lake/ in it",
                next_step='run "farm sweep CONFIG" first, or name the store with --store',
            )
        return self


def _nearest_folder(path: Path) -> Path:
    """The deepest part of ``path`` that exists. Refuses where a file is in the way."""
    standing = path.absolute()
    while not os.path.lexists(standing):
        standing = standing.parent
    if not standing.is_dir():
        raise Refusal(f"store {path}: {standing} is a file", limit="a folder", next_step="name another with --store")
    return standing
