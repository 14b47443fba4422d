"""From paired samples to a verdict on speed. Pure; the ratio is the candidate's time over the baseline's.

A group is one ABBA (or BAAB): the log-ratio of its sides' medians is free of drift. Over the groups stands the exact
signed-rank test of Wilcoxon and the interval that inverts it (Hodges and Lehmann, 1963). Groups of one round share its
processes' memory layout, so the interval is widened, where that is wider, to Student's over the rounds' medians.

Invariant: ``worse`` is said only where the whole interval lies above 1 and the ratio itself reaches the threshold;
``no_worse`` only where the interval excludes the threshold. Whatever noise leaves open is ``inconclusive``, and samples
that cannot be compared are ``measured_nothing``: no sample is ever dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

ALPHA = 0.01  # two-sided: of the test, and one minus the interval's confidence
_Array: TypeAlias = npt.NDArray[np.float64]


class Answer(StrEnum):
    WORSE = "worse"
    NO_WORSE = "no_worse"
    BETTER = "better"
    INCONCLUSIVE = "inconclusive"
    MEASURED_NOTHING = "measured_nothing"


@dataclass(frozen=True)
class Verdict:
    """``ratio`` lies in [``lower``, ``upper``] with 99 % confidence; all are times of candidate over baseline.

    ``smallest_detectable`` is the smallest ratio above 1 that an interval of this width could have told from 1.
    ``p`` is the signed-rank test's, two-sided. ``groups`` is the number of ABBA groups.
    """

    answer: Answer
    ratio: float
    lower: float
    upper: float
    smallest_detectable: float
    p: float
    groups: int
    message: str

    def compared(self, metric: str, device: str, threshold: float) -> dict[str, Any]:
        """The fields of ``Compared`` that come from a measurement of ``metric``, without its rows."""
        return {
            "metric": metric,
            "device": device,
            "verdict": self.answer,
            "ratio": self.ratio,
            "ratio_lower": self.lower,
            "ratio_upper": self.upper,
            "smallest_detectable": self.smallest_detectable,
            "threshold": threshold,
            "message": self.message,
        }


def judged(
    candidate: Sequence[float], baseline: Sequence[float], groups: int, rounds: int, threshold: float
) -> Verdict:
    """The verdict on seconds in run order: equally many from each side and group, ``groups`` in equal shares a round.

    ``threshold`` is the slow-down that matters, as a share of the baseline's time.
    """
    if trouble := _trouble(candidate, baseline, groups):
        return without_samples(Answer.MEASURED_NOTHING, f"measured nothing: {trouble}")
    ratios = _group_medians(candidate, groups) - _group_medians(baseline, groups)
    middle, lower, upper, p = signed_rank(ratios)
    low, high = _between_rounds(ratios, rounds)
    lower, upper = min(lower, low), max(upper, high)
    answer = _answer(middle, lower, upper, math.log1p(threshold))
    half_width = max(upper - middle, middle - lower)
    ratio, least, most, smallest = (_exp(value) for value in (middle, lower, upper, half_width))
    message = (
        f"{ratio:.3f} times the baseline's time [{least:.3f}, {most:.3f}] in {groups} groups of {rounds} rounds;"
        f" could have told {smallest:.3f} from 1, {1 + threshold:.3f} matters"
    )
    return Verdict(answer, ratio, least, most, smallest, p, groups, message)


def without_samples(answer: Answer, message: str) -> Verdict:
    """A verdict that no ratio stands behind, and why."""
    return Verdict(answer, math.nan, 0.0, math.inf, math.inf, 1.0, 0, message)


def _group_medians(samples: Sequence[float], groups: int) -> _Array:
    """Median log time of each group's samples of one side."""
    return np.median(np.log(np.asarray(samples, dtype=np.float64)).reshape(groups, -1), axis=1)


def signed_rank(values: _Array) -> tuple[float, float, float, float]:
    """Hodges and Lehmann's estimate, its interval, and the exact two-sided p of Wilcoxon's test against 0.

    Test and interval come from the same averages of all pairs, so the interval excludes 0 where p is at most ``ALPHA``.
    Too few values for any conclusion give an infinite interval.
    """
    count = len(values)
    first, second = np.triu_indices(count)
    averages = np.sort((values[first] + values[second]) / 2)
    below, equal = int((averages < 0).sum()), int((averages == 0).sum())
    cumulative = _null_cumulative(count)
    rarer = math.ceil(min(below, len(averages) - below - equal) + equal / 2)
    p = min(1.0, 2 * float(cumulative[min(rarer, len(averages))]))
    cut = int(np.searchsorted(cumulative, ALPHA / 2, side="right"))
    interval = (float(averages[cut - 1]), float(averages[-cut])) if cut else (-math.inf, math.inf)
    return float(np.median(averages)), *interval, p


def noise_floor(samples: Sequence[float], groups: int) -> float:
    """The smallest ratio above 1 that could be told from 1 where a side is compared with itself: an A/A.

    ``samples`` are one side's: both visits of a group ran the same code. Infinite where there are too few, or none that
    can be compared.
    """
    if _trouble(samples, samples, groups):
        return math.inf
    visits = _group_medians(samples, 2 * groups).reshape(groups, 2)
    signs = np.where(np.arange(groups) // 2 % 2 == 0, 1.0, -1.0)  # drift cancels over four groups
    middle, lower, upper, _ = signed_rank((visits[:, 0] - visits[:, 1]) * signs)
    return _exp(max(upper - middle, middle - lower))


@cache
def _null_cumulative(count: int) -> _Array:
    """P(W <= w) of the signed-rank sum of ``count`` values whose signs are coins."""
    chances = np.ones(1)
    for rank in range(1, count + 1):
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    return np.cumsum(chances)


def _between_rounds(groups: _Array, rounds: int) -> tuple[float, float]:
    """Student's interval over the rounds' medians; empty where there is but one round."""
    medians = np.array([np.median(part) for part in np.array_split(groups, min(rounds, len(groups)))])
    if len(medians) < 2:
        return math.inf, -math.inf
    quantile: Any = special.stdtrit(len(medians) - 1, 1 - ALPHA / 2)
    half = float(quantile) * float(medians.std(ddof=1)) / math.sqrt(len(medians))
    return float(medians.mean()) - half, float(medians.mean()) + half


def _answer(middle: float, lower: float, upper: float, limit: float) -> Answer:
    if lower > 0 and middle >= limit:
        return Answer.WORSE
    if upper < 0 and middle <= -limit:
        return Answer.BETTER
    return Answer.NO_WORSE if upper < limit else Answer.INCONCLUSIVE


def _trouble(candidate: Sequence[float], baseline: Sequence[float], groups: int) -> str:
    """What keeps the samples from being compared; empty where nothing does."""
    if not candidate or not baseline or groups < 1:
        return "no sample was taken"
    if len(candidate) != len(baseline) or len(candidate) % (2 * groups):
        return f"{len(candidate)} samples of the candidate, {len(baseline)} of the baseline: not {groups} equal groups"
    for name, side in (("candidate", candidate), ("baseline", baseline)):
        for position, seconds in enumerate(side):
            if not (math.isfinite(seconds) and seconds > 0):
                return f"sample {position} of the {name} is {seconds} seconds"
    return ""


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)
