"""The part of the journals that tables have yet to take. Sealer and reader share it: each projection is defined once.

Invariant: an event that several journals hold, or that the lake already has from elsewhere, is kept once, and the
choice is the same for every table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.journal import ROW_COLUMNS, Row, journal_files, journal_rows
from tensorfarm.farm.store.lake import passed
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.named_query import named_query
from tensorfarm.farm.store.tables import JOURNAL_ROWS, SCHEMAS, TIMESTAMP, ArrowTable

# What DuckDB raises where a payload is no JSON, or a value of it is not what it should be.
UNREADABLE = (duckdb.InvalidInputException, duckdb.ConversionException)


@dataclass(frozen=True)
class JournalSnapshot:
    """The first rows of one journal, read in one transaction."""

    path: Path
    writer: str
    rows: Sequence[Row]

    @property
    def last(self) -> int:
        return self.rows[-1][0]

    def arrow(self) -> ArrowTable:
        columns = dict(zip(ROW_COLUMNS, zip(*self.rows, strict=True), strict=True))
        times = pa.array(columns.pop("ts_us"), pa.int64()).cast(TIMESTAMP)
        return pa.table({**columns, "ts": times, "writer": [self.writer] * len(self.rows)}, schema=JOURNAL_ROWS)


def snapshots(layout: StoreLayout, limit: int = -1) -> list[JournalSnapshot]:
    """Every journal that holds rows; the first ``limit`` rows of each, -1 for all."""
    read = ((path, *journal_rows(path, limit)) for path in journal_files(layout))
    return [JournalSnapshot(path, writer, rows) for path, writer, rows in read if rows]


class Tail:
    """Journal rows inside DuckDB, each event once. ``event_files`` are those of the pinned events table."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, taken: Sequence[JournalSnapshot], event_files: Sequence[Path]
    ) -> None:
        self._connection = connection
        self._writers = [snapshot.writer for snapshot in taken]
        rows = pa.concat_tables([JOURNAL_ROWS.empty_table(), *(snapshot.arrow() for snapshot in taken)])
        connection.register("journal_rows", rows)
        connection.execute("create temp table known_events(event_id varchar, writer varchar, seq bigint)")
        if taken and event_files:
            connection.execute(
                f"insert into known_events select event_id, writer, seq from {scan(event_files)}"
                " where sweep_id in (select sweep_id from journal_rows)"
            )
        connection.execute(f"create temp table kept_rows as {named_query('seal_batch')}")
        connection.unregister("journal_rows")

    def untaken(self, name: str, table: DeltaTable | None) -> ArrowTable:
        """Rows of table ``name`` that its pinned version lacks."""
        if not self._writers:
            return SCHEMAS[name].empty_table()
        through = {writer: passed(table, writer) for writer in self._writers}
        return self._projected(name, through)

    def _projected(self, name: str, through: Mapping[str, int]) -> ArrowTable:
        connection, schema = self._connection, SCHEMAS[name]
        connection.register("passed", pa.table({"writer": list(through), "through": list(through.values())}))
        connection.register("journal_rows", connection.sql(named_query("untaken_rows")).to_arrow_table())
        try:
            rows = connection.sql(named_query(f"project_{name}")).to_arrow_table()
        except UNREADABLE as error:
            raise malformed(error) from None
        connection.unregister("journal_rows")
        connection.unregister("passed")
        return rows.select(schema.names).cast(schema)


def malformed(error: duckdb.Error) -> Refusal:
    """The refusal where SQL of our own cannot read what is stored."""
    return Refusal(
        "the store holds a malformed event", limit=str(error).split("\n")[0], next_step='run "farm store fsck"'
    )


def connected() -> duckdb.DuckDBPyConnection:
    """An empty in-memory DuckDB that speaks UTC."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    return connection


def scan(files: Sequence[Path]) -> str:
    """SQL of a scan over exactly these Parquet files, columns by name."""
    return f"read_parquet({path_list(files)}, union_by_name = true)"


def path_list(paths: Sequence[Path]) -> str:
    """Paths as a SQL list of strings."""
    return "[" + ", ".join(f"'{literal(path)}'" for path in paths) + "]"


def literal(path: Path) -> str:
    return str(path).replace("'", "''")
