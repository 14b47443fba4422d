"""Whether a model still fits: how far recent predictions were from what was measured after them.

A prediction is stored before its measurement, so this error is honest: no fit has seen it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tensorfarm.cost_model.intervals import COVERAGE

# Fewer say nothing about a model.
_LEAST_PAIRS = 5
# A model is off where half of its predictions miss by more than a factor of e^0.4 = 1.5.
LIMIT_LOG_ERROR = 0.4


@dataclass(frozen=True)
class Observed:
    """A prediction and what came of it, in seconds."""

    predicted: float
    lower: float
    upper: float
    measured: float


@dataclass(frozen=True)
class Drift:
    """``median_log_error`` is absolute, ``bias`` signed (above 0: predicted too slow); NaN where there is no pair."""

    n: int
    median_log_error: float
    bias: float
    coverage: float

    @property
    def has_drifted(self) -> bool:
        return self.n >= _LEAST_PAIRS and (self.median_log_error > LIMIT_LOG_ERROR or self.coverage < COVERAGE / 2)


def drift(recent: Sequence[Observed]) -> Drift:
    """The error of ``recent`` predictions. Pairs that were not positive are no times and are refused by ValueError."""
    if not recent:
        return Drift(0, math.nan, math.nan, math.nan)
    errors = [math.log(pair.predicted / pair.measured) for pair in recent]
    within = sum(pair.lower <= pair.measured <= pair.upper for pair in recent)
    return Drift(
        len(recent),
        statistics.median(abs(error) for error in errors),
        statistics.median(errors),
        within / len(recent),
    )
