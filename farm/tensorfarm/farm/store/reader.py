"""Lake and journal tails as one set of tables, at one moment, for reading only.

The order is the proof: journals first, then a version of each table (events last), then of each tail only what that
version has not passed. Lake first would lose what a seal moves in between; tails unfiltered would double it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
from deltalake import DeltaTable

from tensorfarm.contract.events import Recorded
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.lake import data_files, opened
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.named_query import named_query
from tensorfarm.farm.store.tables import PROJECTED, READ_AS, SCHEMAS, ArrowTable, definition
from tensorfarm.farm.store.tail import UNREADABLE, Tail, connected, literal, malformed, path_list, scan, snapshots

_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


class Reader:
    """One consistent view of a store. A table is a view of its name; a later seal or compaction does not change it.

    ``as_of`` keeps the facts recorded up to then. It filters by a fact's own time, not by the lake's commits: what a
    journal held at that moment and was sealed later belongs to that moment too. A naive time is local time.
    """

    def __init__(self, layout: StoreLayout, as_of: datetime | None = None) -> None:
        layout.existing()
        self._connection = connected()
        try:
            self._pin(layout, as_of)
        except BaseException:
            self.close()
            raise

    def query(self, sql: str) -> ArrowTable:
        """Rows of one SQL statement that reads. Refuses any other statement, and SQL that fails, in one line."""
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise _failed(error) from None
        if len(statements) != 1 or statements[0].type not in _READING:
            kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
            raise Refusal(
                f"the query is {kinds}", limit="one statement that reads", next_step="write one SELECT or EXPLAIN"
            )
        try:
            return self._connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise _failed(error) from None

    def named(self, name: str, **params: Any) -> ArrowTable:
        """Rows of ``queries/<name>.sql``, whose ``$words`` are ``params``. Refuses a store with a malformed event."""
        try:
            return self._connection.sql(named_query(name), params=params).to_arrow_table()
        except UNREADABLE as error:
            raise malformed(error) from None
        except duckdb.Error as error:
            raise _failed(error) from None

    def events(self, sweep_id: str) -> list[Recorded]:
        """A sweep's events in the order in which they are folded: time, writer, sequence."""
        rows = self.named("events_of_sweep", sweep_id=sweep_id).to_pylist()
        return [Recorded(**row) for row in rows]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _pin(self, layout: StoreLayout, as_of: datetime | None) -> None:
        taken = snapshots(layout)
        pinned = {name: opened(layout, name) for name in reversed(tuple(SCHEMAS))}
        files = {name: data_files(layout, name, table) for name, table in pinned.items()}
        tails = _tails(Tail(self._connection, taken, files["events"]), pinned)
        tables = "; ".join(f"create table tail.{name}({definition(name)})" for name in SCHEMAS)
        self._connection.execute(f"drop table kept_rows; drop table known_events; create schema tail; {tables}")
        for name, table in pinned.items():
            self._create_view(name, files[name], _lacks_columns(name, table), tails[name], as_of)
        experiments = named_query("experiments")
        self._connection.execute(f"create schema derived; create view derived.experiments as {experiments}")
        self._lock([path for paths in files.values() for path in paths])

    def _create_view(
        self, name: str, files: Sequence[Path], lacking: bool, tail: ArrowTable, as_of: datetime | None
    ) -> None:
        connection = self._connection
        if tail.num_rows:
            connection.register("arriving", tail)
            connection.execute(f"insert into tail.{name} by name select * from arriving")
            connection.unregister("arriving")
        sources = [scan(files)] if files else []
        if tail.num_rows or lacking:  # an empty tail still gives older files the columns that were added after them
            sources.append(f"tail.{name}")
        union = " union all by name ".join(f"select * from {source}" for source in sources)
        until = "" if as_of is None else f" where ts <= '{as_of.astimezone(UTC).isoformat()}'::timestamptz"
        columns = ", ".join(_column(name, column) for column in SCHEMAS[name].names)
        connection.execute(f"create view {name} as select {columns} from ({union}){until}")

    def _lock(self, files: Sequence[Path]) -> None:
        """From here on the connection reads these files and nothing else, and no statement can change that."""
        scratch = literal(Path(tempfile.gettempdir()) / "tensorfarm-query")
        self._connection.execute(
            f"set temp_directory = '{scratch}'; set allowed_paths = {path_list(files)};"
            " set enable_external_access = false; set lock_configuration = true"
        )


def _tails(tail: Tail, pinned: dict[str, DeltaTable | None]) -> dict[str, ArrowTable]:
    return {
        name: tail.untaken(name, pinned[name]) if name in PROJECTED else schema.empty_table()
        for name, schema in SCHEMAS.items()
    }


def _lacks_columns(name: str, table: DeltaTable | None) -> bool:
    """Whether the pinned version has not every column of today."""
    return table is None or not set(SCHEMAS[name].names) <= {column.name for column in table.schema().fields}


def _column(table: str, column: str) -> str:
    before = READ_AS.get((table, column))
    return f"coalesce({column}, {before}) as {column}" if before else column


def _failed(error: duckdb.Error) -> Refusal:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    hint = next((line for line in lines[1:] if line.startswith(("Did you mean", "Candidate"))), "")
    return Refusal(
        f"the query failed: {lines[0] if lines else type(error).__name__}",
        limit=hint,
        next_step="\"farm query 'describe TABLE'\" lists a table's columns",
    )
