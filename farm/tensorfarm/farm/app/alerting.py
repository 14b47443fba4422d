"""What the store says now, as a snapshot for exporter and alerts."""

from __future__ import annotations

import time
from pathlib import Path

from tensorfarm.farm.observe.alerts import Firing, firing
from tensorfarm.farm.observe.gauges import SOURCES, snapshot_of
from tensorfarm.farm.observe.series import Snapshot
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


def read_snapshot(store: Path) -> Snapshot:
    """Every gauge of the store at one moment. Refuses where there is no store, or it cannot be read."""
    now = time.time()
    with Reader(StoreLayout(store)) as reader:
        rows = {source: reader.named(f"export_{source}").to_pylist() for source in SOURCES}
    return snapshot_of(rows, now)


def alerts_now(store: Path) -> list[Firing]:
    """The alerts that hold for the store as it is now, most severe first."""
    return firing(read_snapshot(store))
