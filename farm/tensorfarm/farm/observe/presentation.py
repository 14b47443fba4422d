"""A report as people read it: rows, columns to show them in, lines of summary; the same on a screen and on a page.

Invariant: what a column shows is read from a row and nowhere else, so the table, the page and the JSON agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tensorfarm.contract.digest import finite

Row = Mapping[str, Any]

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BAD = frozenset({"killed", "confirmed", "rejected"})


@dataclass(frozen=True)
class Column:
    """A column as text. Where a table is too wide, the column with the highest ``rank`` goes first; rank 0 stays.

    A column that ``folds`` may break its text over lines.
    """

    heading: str
    text: Callable[[Row], str]
    rank: int = 0
    is_number: bool = True
    folds: bool = False


class Kind(StrEnum):
    """What a report is about; a page draws by it."""

    COST = "cost"
    BUDGET = "budget"
    STALENESS = "staleness"
    REGRESSIONS = "regressions"


@dataclass(frozen=True)
class Presentation:
    """``totals`` are the report's figures beside its rows; ``summary`` says them in words, a line each."""

    kind: Kind
    title: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    summary: Sequence[str]
    totals: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return finite({"report": self.kind, "rows": list(self.rows), "totals": dict(self.totals)})


def seconds(value: float | None) -> str:
    """Three digits and the unit that fits; nothing where nothing is known."""
    if value is None or math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞"
    scale, unit = next((item for item in _SCALES if abs(value) >= item[0]), _SCALES[-1])
    return f"{value / scale:.3g} {unit}" if value / scale < 1000 else f"{value / scale:.0f} {unit}"


def share(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else "∞" if math.isinf(value) else f"{100 * value:.0f} %"


def ratio(value: float | None) -> str:
    """One time over another. Empty where there was none to divide: not a number, or zero."""
    return "" if value is None or math.isnan(value) or value == 0 else "∞" if math.isinf(value) else f"{value:.3f}×"


def count(value: float | None) -> str:
    """A number of calls, rounded up: half a call is never made. ``never`` where it is infinite."""
    return "" if value is None else "never" if math.isinf(value) else f"{math.ceil(value):,}"


def minute(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


def days(value: float) -> str:
    """An age, in the unit that fits: minutes, hours or days."""
    minutes = value * 24 * 60
    return f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{value:.0f} d"


def is_bad(text: str) -> bool:
    """Whether a state is one that a person should look at: shown in red."""
    return text in _BAD
