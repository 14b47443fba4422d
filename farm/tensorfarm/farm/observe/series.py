"""A number with labels, and everything known at one moment. Exporter and alerts speak of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SERIES_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """One sample. ``labels`` are in the order of the gauge's declaration."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def matches(self, wanted: Mapping[str, str]) -> bool:
        return wanted.items() <= dict(self.labels).items()


@dataclass(frozen=True)
class Snapshot:
    """What a store said at ``taken_at`` (epoch seconds). ``dropped`` series were more than the limit lets through."""

    taken_at: float
    series: tuple[Series, ...]
    dropped: int = 0

    def named(self, name: str, wanted: Mapping[str, str] | None = None) -> Iterator[Series]:
        """Series of one gauge that carry the ``wanted`` labels."""
        return (item for item in self.series if item.name == name and item.matches(wanted or {}))
