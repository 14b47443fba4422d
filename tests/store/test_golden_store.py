"""A store of an earlier version is still read, row for row. Its shape changes only with a decision and a flag."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tensorfarm.contract.events import Recorded
from tensorfarm.farm.store.fsck import fsck
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal
from tensorfarm.farm.store.tables import PROJECTED

Sweep = Callable[[str], list[Recorded]]
GOLDENS = Path(__file__).parents[1] / "goldens"
VERSIONS = ("store_1", "store")  # of before decision 0014, and of today
MOST_BYTES = 100_000


def spelled(value: object) -> object:
    """A cell as JSON can hold it: times as ISO text, infinities as words."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def rows_of(layout: StoreLayout) -> dict[str, list[dict[str, object]]]:
    with Reader(layout) as reader:
        tables = {name: reader.query(f"from {name}").to_pylist() for name in PROJECTED}
        tables["report"] = reader.named("report_sweep", sweep_id="tail").to_pylist()
    # The writer's random name is the one thing that two stores never share.
    plain = {
        name: [{key: spelled(value) for key, value in row.items() if key != "writer"} for row in rows]
        for name, rows in tables.items()
    }
    return json.loads(json.dumps({name: sorted(rows, key=json.dumps) for name, rows in plain.items()}))


def written(layout: StoreLayout, sweep_events: Sweep) -> StoreLayout:
    """One sealed sweep, and one still in the journal."""
    journal = Journal(layout, claim_writer(layout))
    journal.append(sweep_events("sealed"))
    seal(layout)
    journal.append(sweep_events("tail"))
    journal.close()
    return layout


def rows_then(version: str) -> dict[str, list[dict[str, object]]]:
    """What that version's rows are read as today: a table that is younger is empty."""
    return {name: [] for name in PROJECTED} | json.loads((GOLDENS / version / "rows.json").read_text())


def unpacked(version: str, folder: Path) -> StoreLayout:
    shutil.unpack_archive(GOLDENS / version / "store.tar.gz", folder / "golden")
    return StoreLayout(folder / "golden")


def test_a_store_of_today_reads_as_the_golden_one(tmp_path: Path, sweep_events: Sweep, rewrite_goldens: bool) -> None:
    today = written(StoreLayout(tmp_path / "today").create(), sweep_events)
    if rewrite_goldens:
        shutil.make_archive(str(GOLDENS / "store" / "store"), "gztar", today.root)
        (GOLDENS / "store" / "rows.json").write_text(json.dumps(rows_of(today), sort_keys=True, indent=0) + "\n")
    assert rows_of(today) == rows_then("store")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_reads_as_it_did(tmp_path: Path, version: str) -> None:
    copy = unpacked(version, tmp_path)
    assert rows_of(copy) == rows_then(version)
    assert fsck(copy) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_can_be_sealed_and_stays_the_same(tmp_path: Path, version: str) -> None:
    copy = unpacked(version, tmp_path)
    assert seal(copy) > 0
    assert rows_of(copy) == rows_then(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_is_small(version: str) -> None:
    assert sum(path.stat().st_size for path in (GOLDENS / version).rglob("*") if path.is_file()) < MOST_BYTES


def test_an_older_golden_store_has_no_row_in_the_younger_tables() -> None:
    younger = ("predictions", "budgets", "bisect_steps", "regressions")
    assert [rows_then("store_1")[name] for name in younger] == [[]] * len(younger)
    assert all(rows_then("store")[name] for name in younger)
