"""How fast events are acknowledged, and what the store costs a report over one raw Parquet file.

Goals: at least 2,000 acknowledged events a second in batches of 100; p50 below 2 ms for one; a report over 10 million
measurement rows at most 1.3 times the same SQL over one raw file, store opened anew each time. ``--quick``: 3 million.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from report import Goal, finish

from tensorfarm.contract.events import JobLost, Recorded, recorded
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.lake import append, compact, data_files, opened
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.leases import fence
from tensorfarm.farm.store.named_query import named_query
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal
from tensorfarm.farm.store.tables import SCHEMAS
from tensorfarm.farm.store.tail import connected, path_list

REPORT = "measurement_summary"
APPENDS = 10
BATCH = 100
N_BATCHES = 200
N_SINGLES = 1_000
MEASUREMENTS = """
with numbered as (select {first} + range as n from range({rows}))
select
    md5(n::varchar) || ':0' as measurement_id, md5(n::varchar) as event_id,
    make_timestamptz(1700000000000000 + n * 1000) as ts, 'sweep-' || (n // 100000) as sweep_id,
    'program-' || (n % 250) || '/inductor' as subject, sha256((n % 500)::varchar) as candidate_id,
    sha256((n % 700)::varchar) as artifact_sha256, (n % 2)::integer as ordinal, 'step_seconds' as metric,
    'seconds' as unit, if(n % 2 = 0, 'candidate', 'eager') as variant, 'cpu' as device, 'node-' || (n % 8) as node_id,
    'environment-' || (n % 3) as environment_id, n % 1000 as pair_id, (n % 4)::integer as position, true as warm,
    [random(), random(), random(), random(), random()] as samples, random() * 0.1 as p10, 0.1 + random() * 0.1 as p50,
    0.2 + random() * 0.1 as p90, random() as pressure, random() as thread_seconds
from numbered
"""


def events(first: int, count: int) -> list[Recorded]:
    """Events with the payload of a small verdict, about a kilobyte each."""
    return [
        recorded(JobLost("benchmark", f"cell {number}", stage="gate", reason="x" * 1000), ts_us=number)
        for number in range(first, first + count)
    ]


def flush_p50_ms(folder: Path) -> float:
    """What the device takes to flush 8 KiB of a file that has its size already: no journal can be faster."""
    taken: list[float] = []
    with (folder / "flush.bin").open("w+b", buffering=0) as stream:
        stream.write(bytes(8192 * 200))
        os.fsync(stream.fileno())
        for number in range(200):
            started = time.perf_counter()
            os.pwrite(stream.fileno(), bytes([number]) * 8192, number * 8192)
            os.fdatasync(stream.fileno())
            taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def journal_figures(layout: StoreLayout) -> dict[str, float]:
    """Acknowledged events a second in batches, and the median and 99th percentile of a single append, in ms."""
    journal = Journal(layout, claim_writer(layout))
    batches = [events(number * BATCH, BATCH) for number in range(N_BATCHES)]
    started = time.perf_counter()
    for batch in batches:
        journal.append(batch)
    batched_seconds = time.perf_counter() - started
    singles: list[float] = []
    for event in events(N_BATCHES * BATCH, N_SINGLES):
        started = time.perf_counter()
        journal.append([event])
        singles.append((time.perf_counter() - started) * 1e3)
    journal.close()
    started = time.perf_counter()
    sealed = seal(layout)
    return {
        "flush_p50_ms": flush_p50_ms(layout.work),
        "events_per_second": N_BATCHES * BATCH / batched_seconds,
        "single_p50_ms": statistics.median(singles),
        "single_p99_ms": statistics.quantiles(singles, n=100)[98],
        "sealed_events_per_second": sealed / (time.perf_counter() - started),
    }


def filled(layout: StoreLayout, rows: int) -> Path:
    """Append the measurements in ten commits and compact; return the same rows as one raw Parquet file."""
    each, schema = rows // APPENDS, SCHEMAS["measurements"]
    with connected() as connection:
        for number in range(APPENDS):
            made = connection.sql(MEASUREMENTS.format(first=number * each, rows=each)).to_arrow_table()
            with fence(layout):
                append(layout, "measurements", made.select(schema.names).cast(schema), {"benchmark": number + 1})
        compact(layout)
        raw = layout.work / "raw.parquet"
        files = path_list(data_files(layout, "measurements", opened(layout, "measurements")))
        connection.execute(f"copy (from read_parquet({files})) to '{raw}'")
    return raw


def from_store(layout: StoreLayout) -> int:
    with Reader(layout) as reader:
        return reader.named(REPORT).num_rows


def from_raw(raw: Path) -> int:
    with duckdb.connect() as connection:
        connection.execute(f"create view measurements as from read_parquet('{raw}')")
        return connection.sql(named_query(REPORT)).to_arrow_table().num_rows


def compared(layout: StoreLayout, raw: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the report from the store and from the raw file, alternating which goes first."""
    stored: list[float] = []
    plain: list[float] = []
    for number in range(rounds):
        sides = [(stored, lambda: from_store(layout)), (plain, lambda: from_raw(raw))]
        for seconds, side in sides if number % 2 else reversed(sides):
            started = time.perf_counter()
            assert side() > 0
            seconds.append(time.perf_counter() - started)
    return stored, plain


def main() -> None:
    quick = "--quick" in sys.argv
    rows, rounds = (3_000_000, 5) if quick else (10_000_000, 7)
    with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as folder:
        layout = StoreLayout(Path(folder) / "store").create()
        journal = journal_figures(layout)
        raw = filled(layout, rows)
        from_store(layout), from_raw(raw)
        stored, plain = compared(layout, raw, rounds)
    ratio = statistics.median(stored) / statistics.median(plain)
    per_second, p50 = journal["events_per_second"], journal["single_p50_ms"]
    goals = [
        Goal("acknowledged events a second, batches of 100", ">= 2000", per_second, per_second >= 2000),
        Goal("one acknowledged event, p50 ms", "< 2", p50, p50 < 2),
        Goal(f"report over {rows:,} rows, ratio to one raw file", "<= 1.3", ratio, ratio <= 1.3),
    ]
    details = {"journal": journal, "rows": rows, "store_seconds": stored, "raw_seconds": plain}
    finish("store-quick" if quick else "store", goals, details)


if __name__ == "__main__":
    main()
