"""What can happen to a workload's speed. ``subject`` is the cell; a workload is a program, mode, pipeline and target.

Only what a paired measurement confirmed is a regression: a nomination is a suspicion from history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tensorfarm.contract.event import Event


@dataclass(frozen=True)
class Compared(Event):
    """Two artifacts of a workload were run against each other in pairs; ratios are candidate over baseline.

    ``baseline``: last_accepted or anchor. ``verdict``: worse, no_worse, better, inconclusive or measured_nothing.
    ``smallest_detectable`` is the smallest ratio above 1 that this measurement could have told from 1. ``measurements``
    are rows of that table.
    """

    told_apart_by: ClassVar[tuple[str, ...]] = ("baseline",)
    candidate_id: str
    artifact_sha256: str
    baseline: str
    baseline_artifact: str
    metric: str
    device: str
    verdict: str
    ratio: float
    ratio_lower: float
    ratio_upper: float
    smallest_detectable: float
    threshold: float
    message: str
    seconds: float
    measurements: tuple[Mapping[str, Any], ...] = ()
    node_id: str = ""


@dataclass(frozen=True)
class BaselineAccepted(Event):
    """From now on this artifact is what ``workload`` is compared with. ``by`` is ``sweep`` or ``person``."""

    told_apart_by: ClassVar[tuple[str, ...]] = ("baseline",)
    workload: str
    candidate_id: str
    artifact_sha256: str
    baseline: str
    metric: str
    by: str
    reason: str = ""


@dataclass(frozen=True)
class _Regression(Event):
    told_apart_by: ClassVar[tuple[str, ...]] = ("baseline",)
    regression_id: str
    workload: str
    candidate_id: str
    artifact_sha256: str
    baseline: str
    baseline_artifact: str
    metric: str
    device: str
    ratio: float
    ratio_lower: float
    ratio_upper: float
    smallest_detectable: float
    verdict: str
    message: str
    culprit: str = ""


@dataclass(frozen=True)
class RegressionNominated(_Regression):
    """The candidate looks slower than its baseline by what is known of both; nothing is proven."""


@dataclass(frozen=True)
class RegressionConfirmed(_Regression):
    """A paired measurement found the candidate slower than its baseline by more than the threshold."""


@dataclass(frozen=True)
class RegressionDismissed(_Regression):
    """A paired measurement did not confirm the nomination, or was inconclusive: the verdict says which."""


@dataclass(frozen=True)
class RegressionFixed(_Regression):
    """A later candidate of the workload is no slower than the baseline of an open regression."""
