"""One hand at a time on the lake. The fence is SQLite's write lock on ``leases.sqlite``: it ends with its owner.

Two concurrent compactions of one Delta snapshot silently duplicate rows (deltalake 1.6), so sealing and compaction
share this fence. It needs no expiry, because a dead process holds no lock.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.sqlite_error import refusal_of

WAIT_SECONDS = 120.0


@contextmanager
def fence(layout: StoreLayout, wait_seconds: float = WAIT_SECONDS) -> Generator[None]:
    """Hold the lake's fence for the block. Refuses after ``wait_seconds`` behind another holder."""
    what = f"the fence of store {layout.root}"
    try:
        connection = sqlite3.connect(layout.leases, timeout=wait_seconds, isolation_level=None)
    except sqlite3.Error as error:
        raise refusal_of(what, error) from None
    with closing(connection):
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:
            raise refusal_of(what, error) from None
        yield


@contextmanager
def claimed_sweep(layout: StoreLayout, sweep_id: str) -> Generator[None]:
    """Hold a sweep for the block: a kernel lock, which a killed driver gives back. Refuses one that is driven."""
    place = layout.journal / f"{sweep_id}.sweep"
    with place.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refusal(
                f"sweep {sweep_id} is driven by another process",
                limit="one driver a sweep",
                next_step="wait for it, or stop it first",
            ) from None
        try:
            yield
        finally:
            place.unlink(missing_ok=True)
