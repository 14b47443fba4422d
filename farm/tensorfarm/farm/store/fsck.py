"""What is wrong with a store, in sentences. Reads everything, changes nothing."""

from __future__ import annotations

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.journal import damage, journal_files
from tensorfarm.farm.store.lake import data_files, opened
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.tables import PROJECTED, SCHEMAS


def fsck(layout: StoreLayout) -> list[str]:
    """Findings on journals, files and rows; empty where the store is sound. Rows are read only where all files are."""
    layout.existing()
    found = [finding for path in journal_files(layout) for finding in damage(path)]
    for name in SCHEMAS:
        found += _missing_files(layout, name)
    return found or _wrong_rows(layout)


def _missing_files(layout: StoreLayout, name: str) -> list[str]:
    try:
        files = data_files(layout, name, opened(layout, name))
    except Refusal as refusal:
        return [refusal.fact]
    return [f"table {name}: {path.name} is in the log and not on disk" for path in files if not path.is_file()]


def _wrong_rows(layout: StoreLayout) -> list[str]:
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
