"""Conditions that read two ways: as PromQL for a rules file, and directly over a snapshot.

Invariant: both readings name the same labels. In PromQL every gauge is read as its last sample within a day: a gauge
never vanishes while its exporter lives, so a dead exporter resolves nothing, and what is fixed resolves at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tensorfarm.farm.observe.series import Series, Snapshot

REMEMBERED = "1d"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Hit:
    """One thing that a condition holds for. ``labels`` without a value are left out, as Prometheus does."""

    labels: Labels
    value: float


class Condition(Protocol):
    """``promql`` is the expression of a rule; ``hits`` what it would yield for a snapshot taken now."""

    def promql(self) -> str: ...
    def hits(self, snapshot: Snapshot) -> Sequence[Hit]: ...


@dataclass(frozen=True)
class Read:
    """Some series of one gauge, by labels that must be there."""

    gauge: str
    only: Mapping[str, str] = field(default_factory=dict[str, str])

    def promql(self) -> str:
        wanted = ", ".join(f'{label}="{value}"' for label, value in self.only.items())
        return f"last_over_time({self.gauge}{f'{{{wanted}}}' if wanted else ''}[{REMEMBERED}])"

    def found(self, snapshot: Snapshot) -> Iterator[Series]:
        return snapshot.named(self.gauge, self.only)


@dataclass(frozen=True)
class Open:
    """Any of the gauge is above zero, once for each set of the labels ``by``."""

    read: Read
    by: tuple[str, ...]

    def promql(self) -> str:
        return f"max by ({', '.join(self.by)}) ({self.read.promql()}) > 0"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        worst: dict[Labels, float] = {}
        for item in self.read.found(snapshot):
            labels = _present(tuple(pair for pair in item.labels if pair[0] in self.by))
            worst[labels] = max(worst.get(labels, -math.inf), item.value)
        return [Hit(labels, value) for labels, value in worst.items() if value > 0]


@dataclass(frozen=True)
class Above:
    read: Read
    limit: float

    def promql(self) -> str:
        return f"{self.read.promql()} > {_number(self.limit)}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        return [_hit(item) for item in self.read.found(snapshot) if item.value > self.limit]


@dataclass(frozen=True)
class Zero:
    read: Read

    def promql(self) -> str:
        return f"{self.read.promql()} == 0"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        return [_hit(item) for item in self.read.found(snapshot) if item.value == 0]


@dataclass(frozen=True)
class AboveOther:
    """Above another gauge's value where the labels ``on`` agree."""

    read: Read
    other: Read
    on: tuple[str, ...]

    def promql(self) -> str:
        return f"{self.read.promql()} > on ({', '.join(self.on)}) group_left () {self.other.promql()}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        limits = {self._key(item): item.value for item in self.other.found(snapshot)}
        return [_hit(item) for item in self.read.found(snapshot) if item.value > limits.get(self._key(item), math.inf)]

    def _key(self, item: Series) -> tuple[str, ...]:
        labels = dict(item.labels)
        return tuple(labels.get(label, "") for label in self.on)


@dataclass(frozen=True)
class Older:
    """A time stamp lies more than ``seconds`` back."""

    read: Read
    seconds: float

    def promql(self) -> str:
        return f"time() - {self.read.promql()} > {_number(self.seconds)}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        return [
            Hit(_present(item.labels), snapshot.taken_at - item.value)
            for item in self.read.found(snapshot)
            if snapshot.taken_at - item.value > self.seconds
        ]


@dataclass(frozen=True)
class OlderThanPeriod:
    """A time stamp lies more than ``factor`` periods back; the period's gauge has the same labels."""

    read: Read
    factor: float
    period: Read

    def promql(self) -> str:
        return f"time() - {self.read.promql()} > {_number(self.factor)} * {self.period.promql()}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        periods = {item.labels: item.value for item in self.period.found(snapshot)}
        return [
            Hit(_present(item.labels), snapshot.taken_at - item.value)
            for item in self.read.found(snapshot)
            if snapshot.taken_at - item.value > self.factor * periods.get(item.labels, math.inf)
        ]


@dataclass(frozen=True)
class Either:
    first: Condition
    second: Condition

    def promql(self) -> str:
        return f"{self.first.promql()} or {self.second.promql()}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        found = {hit.labels: hit for hit in (*self.second.hits(snapshot), *self.first.hits(snapshot))}
        return list(found.values())


@dataclass(frozen=True)
class Both:
    """The first, where the second holds for the same labels."""

    first: Condition
    second: Condition

    def promql(self) -> str:
        return f"{self.first.promql()} and {self.second.promql()}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        also = {hit.labels for hit in self.second.hits(snapshot)}
        return [hit for hit in self.first.hits(snapshot) if hit.labels in also]


@dataclass(frozen=True)
class Share:
    """The sum of a gauge is at least ``least``, and more than the part ``limit`` of the sum of another."""

    read: Read
    whole: Read
    limit: float
    least: int

    def promql(self) -> str:
        part = f"sum({self.read.promql()})"
        return f"{part} / sum({self.whole.promql()}) > {_number(self.limit)} and {part} >= {self.least}"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        whole = [item.value for item in self.whole.found(snapshot)]
        part = sum(item.value for item in self.read.found(snapshot))
        if not whole or part < self.least:
            return []
        share = part / sum(whole) if sum(whole) else math.inf
        return [Hit((), share)] if share > self.limit else []


@dataclass(frozen=True)
class Truncated:
    """The exporter left series out."""

    def promql(self) -> str:
        return f"{Read('farm_exporter_dropped_series').promql()} > 0"

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        return [Hit((), float(snapshot.dropped))] if snapshot.dropped else []


@dataclass(frozen=True)
class OfPrometheus:
    """Something about the exporter itself, which only its scraper can see."""

    text: str

    def promql(self) -> str:
        return self.text

    def hits(self, snapshot: Snapshot) -> Sequence[Hit]:
        return []


def _hit(item: Series) -> Hit:
    return Hit(_present(item.labels), item.value)


def _number(value: float) -> str:
    """As a person writes it: no exponent where there are few digits."""
    return f"{value:.12g}"


def _present(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[1])
