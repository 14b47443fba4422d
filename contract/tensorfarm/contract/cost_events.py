"""What can happen to costs: peaks were measured, a model was calibrated, a prediction or a budget was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tensorfarm.contract.event import Event


@dataclass(frozen=True)
class PeaksMeasured(Event):
    """What a machine can do at most. ``subject`` is the target; ``peaks`` is the cost model's own JSON."""

    peaks_id: str
    peaks: Mapping[str, Any]
    seconds: float
    node_id: str = ""


@dataclass(frozen=True)
class CostModelCalibrated(Event):
    """A cost model was fitted to ``n_samples`` measurements; ``subject`` is the target.

    ``median_error`` and ``coverage`` (of the 90 % interval) are ratios, from programs that the fit did not see; both
    are NaN where there were too few.
    """

    model_id: str
    peaks_id: str
    n_samples: int
    median_error: float
    coverage: float
    model: Mapping[str, Any]


@dataclass(frozen=True)
class PredictionMade(Event):
    """A cost was predicted before it was measured; ``subject`` is a cell. Values in seconds, the interval is 90 %.

    ``metric``: step_seconds or compile_seconds. ``checkpoint``: captured or lowered.
    """

    told_apart_by: ClassVar[tuple[str, ...]] = ("metric", "checkpoint")
    candidate_id: str
    metric: str
    checkpoint: str
    predicted: float
    lower: float
    upper: float
    model_id: str
    peaks_id: str
    features_hash: str
    out_of_distribution: bool


@dataclass(frozen=True)
class BudgetDeclared(Event):
    """What may be spent on each cell of ``scope`` (a sweep). ``metric``: compile_seconds, calls or step_seconds.

    A measurement of ``metric`` is fresh for ``fresh_for_seconds``, 0 for ever. That of step_seconds, which has no limit
    (``limit_value`` is infinite), is declared for this alone.
    """

    told_apart_by: ClassVar[tuple[str, ...]] = ("metric",)
    scope: str
    metric: str
    limit_value: float
    fresh_for_seconds: int = 0


@dataclass(frozen=True)
class TaskRejected(Event):
    """A legal candidate that is not worth its cost; ``break_even_calls`` is infinite where it is never."""

    candidate_id: str
    break_even_calls: float
    expected_calls: float
    message: str
    evidence: Mapping[str, float] = field(default_factory=dict[str, float])
