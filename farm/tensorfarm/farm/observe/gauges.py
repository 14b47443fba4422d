"""What is exported: each gauge is a column of a named query, its labels are other columns of the same row.

Invariant: a store only grows, and so do the series of it. What is over goes to zero and does not vanish, so the last
sample of a series is the truth for as long as nobody can ask for a newer one. Labels are names, never hashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfarm.farm.observe.series import SERIES_LIMIT, Series, Snapshot

Row = Mapping[str, Any]
_CELL = ("workload", "backend", "device_class")
_SWEEP = ("sweep", "device_class")
_METRIC = ("metric", "device_class")


@dataclass(frozen=True)
class Gauge:
    """``column`` of the query ``export_<source>``; where it is null there is no series.

    With ``seconds_since`` the column is a time, and the gauge is how long ago that was, 0 where it is null.
    """

    name: str
    text: str
    source: str
    column: str
    labels: tuple[str, ...] = ()
    seconds_since: bool = False

    def series(self, rows: Sequence[Row], now: float) -> Iterator[Series]:
        for row in rows:
            value = self._value(row[self.column], now)
            if math.isfinite(value):
                yield Series(self.name, tuple((label, str(row[label] or "")) for label in self.labels), value)

    def _value(self, seen: Any, now: float) -> float:
        if self.seconds_since:
            return 0.0 if seen is None else max(now - seen, 0.0)
        return math.nan if seen is None else float(seen)


# What must never be dropped comes first.
GAUGES = (
    Gauge(
        "farm_open_failures",
        "1 where this failure is what was last found out about a workload",
        "failures",
        "open",
        (*_CELL, "failure_class"),
    ),
    Gauge(
        "farm_open_regressions",
        "Confirmed regressions that are not fixed",
        "regressions",
        "open",
        (*_CELL, "metric", "baseline"),
    ),
    Gauge(
        "farm_nominated_regressions",
        "Suspicions that no paired measurement has settled",
        "regressions",
        "nominated",
        (*_CELL, "metric", "baseline"),
    ),
    Gauge("farm_cache_entries", "Artifacts served, by what the gate says of them", "cache", "entries", ("gate",)),
    Gauge(
        "farm_expected_cells", "Cells of the newest sweep without an open failure", "sweeps", "expected_cells", _SWEEP
    ),
    Gauge("farm_measured_cells", "Those of them that have been measured", "sweeps", "measured_cells", _SWEEP),
    Gauge("farm_last_measurement_timestamp_seconds", "Newest measurement", "sweeps", "measured_at", _SWEEP),
    Gauge("farm_measurement_period_seconds", "How long a measurement is fresh", "sweeps", "period_seconds", _SWEEP),
    Gauge(
        "farm_queue_oldest_seconds",
        "Since anything happened in an unfinished sweep; 0 where nothing is left to do",
        "sweeps",
        "progress_at",
        _SWEEP,
        seconds_since=True,
    ),
    Gauge("farm_queue_cells", "Cells that wait for a stage or are in it", "queue", "cells", ("stage",)),
    Gauge("farm_pool_nodes", "Nodes that worked for a stage of unfinished sweeps", "queue", "nodes", ("stage",)),
    Gauge("farm_pool_lost_jobs", "Jobs of unfinished sweeps lost to dying nodes", "queue", "lost_jobs", ("stage",)),
    Gauge("farm_bisections_active", "Bisections on their way", "bisections", "active", ("backend", "device_class")),
    Gauge(
        "farm_bisection_last_progress_timestamp_seconds",
        "Last probe of the bisection that has waited longest",
        "bisections",
        "progress_at",
        ("backend", "device_class"),
    ),
    Gauge("farm_compile_time_seconds", "Of the last five compilations", "compile_seconds", "seconds", (*_CELL, "stat")),
    Gauge("farm_compile_budget_seconds", "Declared limit", "compile_seconds", "budget_seconds", _CELL),
    Gauge(
        "farm_verdict_ratio_lower",
        "Lower end of the newest paired ratio, candidate over baseline",
        "comparisons",
        "ratio_lower",
        (*_CELL, "metric", "baseline"),
    ),
    Gauge("farm_creep_threshold_ratio", "Ratio above which a workload is slower", "noise", "threshold", _METRIC),
    Gauge(
        "farm_aa_ratio_halfwidth",
        "Part by which a paired measurement may be wrong",
        "noise",
        "halfwidth",
        _METRIC,
    ),
    Gauge("farm_metric_halfwidth_limit", "Part that matters", "noise", "halfwidth_limit", _METRIC),
    Gauge(
        "farm_baseline_timestamp_seconds",
        "When the baseline was accepted",
        "baselines",
        "accepted_at",
        (*_CELL, "metric", "baseline"),
    ),
    Gauge(
        "farm_baseline_toolchain_match",
        "1 where the baseline was built with today's toolchain",
        "baselines",
        "toolchain_match",
        (*_CELL, "metric", "baseline"),
    ),
    Gauge(
        "farm_cost_model_abs_log_error",
        "Error of what the newest model predicted",
        "cost_errors",
        "error",
        ("metric", "device_class", "quantile"),
    ),
    Gauge("farm_stale_workloads", "Workloads whose newest answer is stale", "staleness", "workloads", ("reason",)),
)
SOURCES = tuple(dict.fromkeys(gauge.source for gauge in GAUGES))


def snapshot_of(rows: Mapping[str, Sequence[Row]], now: float, limit: int = SERIES_LIMIT) -> Snapshot:
    """All gauges over the rows of each of ``SOURCES``; past ``limit`` the last are dropped, and counted."""
    series = [item for gauge in GAUGES for item in gauge.series(rows[gauge.source], now)]
    return Snapshot(now, tuple(series[:limit]), max(len(series) - limit, 0))
