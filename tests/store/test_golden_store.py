"""A store of an earlier version is still read, row for row. Its shape changes only with a decision and a flag."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tensorfarm.contract.events import Recorded
from tensorfarm.farm.store.fsck import fsck
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal
from tensorfarm.farm.store.tables import PROJECTED

Sweep = Callable[[str], list[Recorded]]
GOLDEN = Path(__file__).parents[1] / "goldens" / "store"
ROWS = GOLDEN / "rows.json"
PACKED = GOLDEN / "store.tar.gz"
MOST_BYTES = 60_000


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


def unpacked(folder: Path) -> StoreLayout:
    shutil.unpack_archive(PACKED, folder / "golden")
    return StoreLayout(folder / "golden")


def test_the_golden_store_reads_as_it_did(tmp_path: Path, sweep_events: Sweep, rewrite_goldens: bool) -> None:
    if rewrite_goldens:
        fresh = written(StoreLayout(tmp_path / "fresh").create(), sweep_events)
        shutil.make_archive(str(PACKED).removesuffix(".tar.gz"), "gztar", fresh.root)
        ROWS.write_text(json.dumps(rows_of(fresh), sort_keys=True, indent=0) + "\n")
    copy = unpacked(tmp_path)
    assert rows_of(copy) == json.loads(ROWS.read_text())
    assert fsck(copy) == []


def test_a_store_of_today_reads_as_the_golden_one(tmp_path: Path, sweep_events: Sweep) -> None:
    today = written(StoreLayout(tmp_path / "today").create(), sweep_events)
    assert rows_of(today) == json.loads(ROWS.read_text())


def test_the_golden_store_can_be_sealed_and_stays_the_same(tmp_path: Path) -> None:
    copy = unpacked(tmp_path)
    before = rows_of(copy)
    assert seal(copy) > 0
    assert rows_of(copy) == before


def test_the_golden_store_is_small() -> None:
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < MOST_BYTES
