"""The exporter's text: a snapshot and the exporter's own state, as Prometheus reads it.

Invariant: what cannot be read is never zero. A failed refresh leaves the last snapshot standing; its age and a gauge
say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tensorfarm.farm.observe.gauges import GAUGES
from tensorfarm.farm.observe.series import Snapshot


@dataclass(frozen=True)
class Reading:
    """The last ``snapshot``, how long it took, how often one is taken, and whether the last attempt failed."""

    snapshot: Snapshot
    refresh_seconds: float
    period_seconds: float
    failing: bool = False

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Gauges(self))
        return generate_latest(registry)


class _Gauges(Collector):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {gauge.name: GaugeMetricFamily(gauge.name, gauge.text, labels=gauge.labels) for gauge in GAUGES}
        for item in self._reading.snapshot.series:
            families[item.name].add_metric([value for _, value in item.labels], item.value)
        yield from families.values()
        yield from self._own()

    def _own(self) -> Iterator[GaugeMetricFamily]:
        reading, prefix = self._reading, "farm_exporter"
        for name, text, value in (
            ("last_refresh_timestamp_seconds", "When the store was last read", reading.snapshot.taken_at),
            ("refresh_failing", "1 where the last attempt to read the store failed", float(reading.failing)),
            ("refresh_seconds", "How long the last reading took", reading.refresh_seconds),
            ("refresh_period_seconds", "How often the store is read", reading.period_seconds),
            ("dropped_series", "Series that were more than the limit lets through", float(reading.snapshot.dropped)),
        ):
            yield GaugeMetricFamily(f"{prefix}_{name}", text, value=value)
