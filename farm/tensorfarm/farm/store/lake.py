"""The Delta tables: plain Parquet and a commit log. Every commit says how far each journal is taken into the table.

Invariant: after ``append`` returns, data and log are on the device (delta-rs itself flushes nothing), and a row is in
the table exactly when its journal's passed sequence covers it. Nothing is vacuumed here: old versions stay readable.
Not partitioned: that would tear a small store into files of a few rows, and file statistics prune by time as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.disk import sync
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.leases import fence
from tensorfarm.farm.store.tables import SCHEMAS, ArrowTable

# Checkpoints are written by ``compact``, which flushes them; expired logs would take old versions with them.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
# delta-rs would compact with zstd, at 1.28 times the CPU of a raw file for a report over 3 million rows; this is 1.07.
_WRITTEN = WriterProperties(compression="SNAPPY")
_CONFIGURATION: Mapping[str, str | None] = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
}
_LOG = "_delta_log"


def table_folder(layout: StoreLayout, name: str) -> Path:
    return layout.lake.absolute() / name


def opened(layout: StoreLayout, name: str) -> DeltaTable | None:
    """The newest version of a table, or None where nothing was ever sealed into it."""
    folder = table_folder(layout, name)
    if not folder.is_dir():
        return None
    try:
        return DeltaTable(folder) if DeltaTable.is_deltatable(str(folder)) else None
    except (DeltaError, OSError) as error:
        raise _refusal(layout, name, error) from None


def passed(table: DeltaTable | None, writer: str) -> int:
    """The last sequence of ``writer`` that the table has taken; 0 where none."""
    return (table.transaction_version(writer) or 0) if table is not None else 0


def data_files(layout: StoreLayout, name: str, table: DeltaTable | None) -> list[Path]:
    """The Parquet files of the pinned version. Named below our own root: a table's URI escapes odd characters."""
    folder = table_folder(layout, name)
    return [] if table is None else sorted(folder / Path(uri).name for uri in table.file_uris())


def append(layout: StoreLayout, name: str, rows: ArrowTable, through: Mapping[str, int]) -> None:
    """Add ``rows`` in one commit that also records how far each writer is passed. Only under the fence."""
    folder = table_folder(layout, name)
    try:
        table = opened(layout, name)
        first = 0 if table is None else table.version() + 1
        if table is None:
            table = DeltaTable.create(
                folder, SCHEMAS[name], configuration=_CONFIGURATION, post_commithook_properties=_NO_HOOKS
            )
        write_deltalake(
            table,
            rows,
            mode="append",
            schema_mode="merge",
            commit_properties=CommitProperties(
                app_transactions=[Transaction(writer, seq) for writer, seq in sorted(through.items())]
            ),
            post_commithook_properties=_NO_HOOKS,
        )
        for version in range(first, table.version() + 1):
            _sync_commit(folder, version)
        sync(layout.lake)
    except (DeltaError, OSError) as error:
        raise _refusal(layout, name, error) from None


def make_durable(layout: StoreLayout, name: str, table: DeltaTable) -> None:
    """Flush everything a table consists of: for commits whose writer died before it could."""
    folder = table_folder(layout, name)
    for path in (*data_files(layout, name, table), *sorted((folder / _LOG).iterdir()), folder, layout.lake):
        sync(path)


def compact(layout: StoreLayout, least_files: int = 2) -> dict[str, int]:
    """Merge small files of every table that has ``least_files`` or more, and checkpoint its log. Takes the fence.

    Returns the number of files that were merged, by table. Rows, versions and passed sequences are unchanged.
    """
    with fence(layout):
        return {name: merged for name in SCHEMAS if (merged := compact_table(layout, name, least_files))}


def compact_table(layout: StoreLayout, name: str, least_files: int) -> int:
    """Merge one table's small files. Only under the fence; returns how many files were merged."""
    try:
        table = opened(layout, name)
        if table is None or len(table.file_uris()) < least_files:
            return 0
        metrics = table.optimize.compact(writer_properties=_WRITTEN, post_commithook_properties=_NO_HOOKS)
        table.create_checkpoint()
        make_durable(layout, name, table)
    except (DeltaError, OSError) as error:
        raise _refusal(layout, name, error) from None
    return int(metrics["numFilesRemoved"])


def _sync_commit(folder: Path, version: int) -> None:
    commit = folder / _LOG / f"{version:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    added = [folder / action["add"]["path"] for action in actions if "add" in action]
    for path in (*added, commit, folder / _LOG, folder):
        sync(path)


def _refusal(layout: StoreLayout, name: str, error: Exception) -> Refusal:
    fact = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    full = "No space left" in str(error)
    return Refusal(
        f"table {name} of store {layout.root}: {fact}",
        limit="the commit was not made; the journal still holds its rows" if full else "",
        next_step="free some disk space, then try again" if full else 'run "farm store fsck"',
    )
