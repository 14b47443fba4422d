"""What the verdicts add up to: scores with their 95 % intervals, by family, by kind, by dtype.

Invariant: a mutant counts as killed where a family that is listed for its kind failed it with a conformance failure; a
crash is no kill and is told apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gate_verdicts import Row
from report import Goal
from rich.console import Console
from rich.table import Table

Z95 = 1.959964


@dataclass(frozen=True)
class Score:
    """``killed`` of ``planted`` non-equivalent mutants. ``alone``: by this family itself, whatever others said."""

    name: str
    planted: int
    killed: int
    low: float
    high: float
    alone: int | None = None

    @property
    def rate(self) -> float:
        return self.killed / self.planted if self.planted else 0.0

    def row(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.rate}


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927); all of [0, 1] where nothing was tried."""
    if not trials:
        return 0.0, 1.0
    rate, square = successes / trials, Z95 * Z95 / trials
    middle = (rate + square / 2) / (1 + square)
    half = Z95 / (1 + square) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def score(name: str, rows: Sequence[Row], alone: int | None = None) -> Score:
    killed = sum(row.killed for row in rows)
    return Score(name, len(rows), killed, *wilson(killed, len(rows)), alone)


def by(rows: Iterable[Row], keys: Callable[[Row], Iterable[str]]) -> list[Score]:
    """A score for each key, lowest first. A mutant that lists several families counts for each of them."""
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for key in keys(row):
            grouped[key].append(row)
    scores = [score(key, of, sum(key in row.failed for row in of)) for key, of in grouped.items()]
    return sorted(scores, key=lambda item: (item.rate, item.name))


def by_family(rows: Iterable[Row]) -> list[Score]:
    return by(rows, lambda row: row.listed)


def by_kind(rows: Iterable[Row]) -> list[Score]:
    return by(rows, lambda row: (row.kind,))


def by_dtype(rows: Iterable[Row]) -> list[Score]:
    return by(rows, lambda row: (row.dtypes,))


def survivors(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.killed]


def distinct(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> int:
    return len({key(row) for row in rows})


def mutation_goals(rows: Sequence[Row], kinds: int, programs: int) -> list[Goal]:
    """Of the non-equivalent mutants. ``kinds`` and ``programs`` are how many were to be used at least."""
    families, of_kinds, crashed = by_family(rows), by_kind(rows), sum(bool(row.died) for row in rows)
    whole = score("all", rows)
    lowest = families[0] if families else score("none", ())
    dead = [item.name for item in of_kinds if not item.killed]
    n_kinds, n_programs = len(of_kinds), distinct(rows, lambda row: row.program)
    interval = f"95 %: {lowest.low:.3f}–{lowest.high:.3f}"
    return [
        Goal(
            f"mutants killed by a listed family, of {whole.planted} (95 %: {whole.low:.3f}–{whole.high:.3f})",
            "1", whole.rate, bool(rows) and whole.killed == whole.planted,
        ),
        Goal(f"lowest family: {lowest.name}, {lowest.killed} of {lowest.planted} ({interval})",
             ">= 0.95", lowest.rate, lowest.rate >= 0.95),
        Goal(f"kinds that nothing was killed of: {', '.join(dead) or 'none'}", "0", len(dead), not dead),
        Goal("kinds planted and at work", f">= {kinds}", n_kinds, n_kinds >= kinds),
        Goal("programs with a mutant at work", f">= {programs}", n_programs, n_programs >= programs),
        Goal("mutants that crashed, told apart from kills", "told", crashed, True),
    ]  # fmt: skip


def honest_goals(rows: Sequence[Row], trials: int) -> list[Goal]:
    alarms = sum(row.alarmed for row in rows)
    refused = sum(row.outcome not in ("admitted", "undecided") for row in rows) - alarms
    low, high = wilson(alarms, len(rows))
    return [
        Goal("honest variants judged", f">= {trials}", len(rows), len(rows) >= trials),
        Goal(f"false alarms among them (rate, 95 %: {low:.4f}–{high:.4f})", "0", alarms, not alarms),
        Goal("verdicts on them that are no verdict", "0", refused, not refused),
        Goal(
            "honest variants left undecided", "told", sum(row.outcome == "undecided" for row in rows), True
        ),
    ]  # fmt: skip


def printed(title: str, scores: Sequence[Score], alone: bool) -> None:
    """A table, lowest first."""
    table = Table(title=title)
    for name in ("", "planted", "killed", "rate", "95 % interval", *(["by itself"] if alone else [])):
        table.add_column(name, justify="left" if not name else "right")
    for item in scores:
        told = [f"{item.rate:.3f}", f"{item.low:.3f}–{item.high:.3f}", *([str(item.alone)] if alone else [])]
        table.add_row(item.name, str(item.planted), str(item.killed), *told)
    Console(width=120).print(table)
