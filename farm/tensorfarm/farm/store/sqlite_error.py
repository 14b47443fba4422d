"""What SQLite's result codes mean to a person: the disk, the permissions, another process; never our own mistakes."""

from __future__ import annotations

import sqlite3

from tensorfarm.contract.refusal import Refusal

_DAMAGED = 'move the file away; "farm store fsck" says what the lake still holds'
_NEXT_STEPS = {
    sqlite3.SQLITE_FULL: "free some disk space, then try again",
    sqlite3.SQLITE_IOERR: "check the disk, then try again",
    sqlite3.SQLITE_READONLY: "make the store writable, or name another with --store",
    sqlite3.SQLITE_CANTOPEN: "check the path and its permissions",
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_BUSY: "let the other process end, then try again",
}


def refusal_of(what: str, error: sqlite3.Error) -> Refusal:
    """``what`` failed with ``error``, in one line. Raises the error itself where it tells of a mistake in the code."""
    # Extended codes keep the basic one in their low byte.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code not in _NEXT_STEPS:
        raise error
    return Refusal(f"{what}: {error}", next_step=_NEXT_STEPS[code])
