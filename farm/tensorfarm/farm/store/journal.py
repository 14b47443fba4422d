"""Acknowledged means on disk. Each writer appends events to its own SQLite journal and hears back after the commit.

Invariant: an event is in a journal at most once (unique ``event_id``), and ``seq`` only grows, also after the sealer
has taken the rows away. A journal names itself once (``w0-<random>``): a file that was deleted and made again is
another writer, so what the lake has passed of the old file is never held against the new one. Needs SQLite alone.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import IO, TypeAlias

from tensorfarm.contract.events import Recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.disk import sync
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.sqlite_error import refusal_of

Row: TypeAlias = tuple[int, str, int, str, int, str, int, str, str, str]
"""``seq`` followed by the fields of ``Recorded``."""

_COLUMNS = tuple(item.name for item in fields(Recorded))
ROW_COLUMNS = ("seq", *_COLUMNS)
_values = attrgetter(*_COLUMNS)
_BUSY_SECONDS = 60.0
_TABLES = """
create table if not exists identity(writer text not null);
create table if not exists events(
    seq integer primary key autoincrement, event_id text not null unique, ts_us integer not null, type text not null,
    version integer not null, sweep_id text not null, attempt integer not null, subject text not null,
    cause_id text not null, payload text not null);
"""
# Not "or ignore": that would also swallow a missing value.
_INSERT = (
    f"insert into events({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"
    " on conflict(event_id) do nothing"
)


@dataclass(frozen=True)
class Writer:
    """The right to write one journal: a kernel lock that ends with its holder. Programs it starts do not inherit it."""

    name: str
    lock: IO[bytes]

    def release(self) -> None:
        self.lock.close()


def claim_writer(layout: StoreLayout) -> Writer:
    """Take the first free of ``w0``, ``w1``, …; no two processes ever hold the same one."""
    number = 0
    while True:
        name = f"w{number}"
        try:
            lock = (layout.journal / f"{name}.lock").open("ab")
        except OSError as error:
            raise Refusal(
                f"store {layout.root}: no journal can be claimed: {error.strerror}",
                next_step="make the store writable, or name another with --store",
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            number += 1
            continue
        return Writer(name, lock)


class Journal:
    """One writer's journal, open for appending."""

    def __init__(self, layout: StoreLayout, writer: Writer) -> None:
        self._claim = writer
        self.path = layout.journal / f"{writer.name}.sqlite"
        try:
            self._connection = _connected(self.path)
            self.writer = _prepared(self._connection, writer.name)
            sync(layout.journal)
        except sqlite3.Error as error:
            raise refusal_of(f"journal {self.path}", error) from None

    def append(self, records: Iterable[Recorded]) -> int:
        """Commit ``records`` in one transaction and return how many were new. All of them are on disk, or none is."""
        rows = [_values(record) for record in records]
        connection = self._connection
        try:
            connection.execute("begin immediate")
            before = connection.total_changes
            connection.executemany(_INSERT, rows)
            added = connection.total_changes - before
            connection.execute("commit")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("rollback")
            raise refusal_of(f"journal {self.path}", error) from None
        return added

    def close(self) -> None:
        """Close the file and give the writer's name back."""
        self._connection.close()
        self._claim.release()


def journal_files(layout: StoreLayout) -> list[Path]:
    return sorted(layout.journal.glob("*.sqlite"))


def journal_rows(path: Path, limit: int = -1) -> tuple[str, Sequence[Row]]:
    """The writer's own name and its rows in order, from one snapshot. ``limit`` rows at most; -1 is all."""
    try:
        with closing(_opened_for_reading(path)) as connection:
            connection.execute("begin")
            tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            if not {"identity", "events"} <= tables:  # its writer is between creating the file and its first commit
                return "", []
            (writer,) = connection.execute("select writer from identity").fetchone()
            columns = ", ".join(ROW_COLUMNS)
            rows = connection.execute(f"select {columns} from events order by seq limit ?", (limit,)).fetchall()
            return writer, rows
    except sqlite3.Error as error:
        raise refusal_of(f"journal {path}", error) from None


def delete_through(path: Path, seq: int) -> None:
    """Delete the rows up to ``seq``. Only the sealer may call it, after every table has passed them durably."""
    try:
        with closing(_connected(path)) as connection:
            connection.execute("delete from events where seq <= ?", (seq,))
    except sqlite3.Error as error:
        raise refusal_of(f"journal {path}", error) from None


def damage(path: Path) -> list[str]:
    """What SQLite's own check says about the file; empty where it is sound."""
    try:
        with closing(_opened_for_reading(path)) as connection:
            found = [str(text) for (text,) in connection.execute("pragma quick_check")]
    except sqlite3.Error as error:
        found = [str(error)]
    return [f"journal {path.name}: {text}" for text in found if text != "ok"]


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection


def _prepared(connection: sqlite3.Connection, name: str) -> str:
    """Make the tables where they are missing; return the writer's own name."""
    connection.execute("begin immediate")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(
        "insert into identity select ? where not exists (select 1 from identity)", (f"{name}-{secrets.token_hex(4)}",)
    )
    (writer,) = connection.execute("select writer from identity").fetchone()
    connection.execute("commit")
    return writer


def _opened_for_reading(path: Path) -> sqlite3.Connection:
    # On a read-only disk SQLite cannot make its shared-memory file; with no log beside it, the main file is everything.
    settled = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    mode = "immutable=1" if settled else "mode=ro"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
