"""What is wrong with a store, in sentences. Reads everything, changes nothing."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.journal import damage, journal_files
from tensorfarm.farm.store.lake import data_files, opened
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.tables import JOURNAL_ROWS, PROJECTED, SCHEMAS
from tensorfarm.farm.store.tail import connected, scan, snapshots


def fsck(layout: StoreLayout) -> list[str]:
    """Findings on journals, files and rows; empty where the store is sound. Rows are read only where all files are."""
    layout.existing()
    found = [finding for path in journal_files(layout) for finding in damage(path)]
    for name in SCHEMAS:
        found += _missing_files(layout, name)
    return found or _wrong_payloads(layout) or _wrong_rows(layout)


def _missing_files(layout: StoreLayout, name: str) -> list[str]:
    try:
        files = data_files(layout, name, opened(layout, name))
    except Refusal as refusal:
        return [refusal.fact]
    return [f"table {name}: {path.name} is in the log and not on disk" for path in files if not path.is_file()]


def _wrong_payloads(layout: StoreLayout) -> list[str]:
    """Events that are no JSON objects, where they lie: a journal keeps what could not be sealed."""
    taken = snapshots(layout)
    names = {item.writer: item.path.name for item in taken}
    with closing(connected()) as connection:
        tables = [JOURNAL_ROWS.empty_table(), *(item.arrow() for item in taken)]
        connection.register("journal_rows", pa.concat_tables(tables))
        sources = ["from journal_rows"]
        if files := data_files(layout, "events", opened(layout, "events")):
            sources.append(f"from {scan(files)}")
        union = " union by name ".join(f"select writer, seq, type, payload {source}" for source in sources)
        wrong = "if(json_valid(payload), json_type(payload) <> 'OBJECT', true)"
        rows = connection.sql(f"select writer, seq, type from ({union}) where {wrong} order by all").fetchall()
    return [
        f"{f'journal {names[writer]}' if writer in names else f'table events, writer {writer}'}: event {seq} ({kind})"
        " has a payload that is no JSON object"
        for writer, seq, kind in rows
    ]


def _wrong_rows(layout: StoreLayout) -> list[str]:
    try:
        return _repeats_and_orphans(layout)
    except Refusal as refusal:
        return [f"{refusal.fact}: {refusal.limit}"]


def _repeats_and_orphans(layout: StoreLayout) -> list[str]:
    with Reader(layout) as reader:
        repeated = reader.query("select event_id, count(*) as n from events group by event_id having n > 1 order by 1")
        found = [f"table events: event {row['event_id']} is there {row['n']} times" for row in repeated.to_pylist()]
        for name in PROJECTED[1:]:
            orphans = reader.query(
                f"select event_id, count(*) as n from {name} where event_id not in (select event_id from events)"
                " group by event_id order by 1"
            )
            found += [
                f"table {name}: {row['n']} rows of event {row['event_id']}, which is in no table"
                for row in orphans.to_pylist()
            ]
    return found
