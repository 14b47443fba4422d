"""What an admitted artifact means to the baselines of its workload, and what a comparison with them means. Pure.

A workload is a program, a pipeline, a mode and a target. Its ``last_accepted`` baseline moves with every artifact that
is no slower; its ``anchor`` stays where a person, or the first artifact, put it: many small steps are seen too.
Invariants: history only nominates, a paired measurement confirms; what was confirmed is open until it is fixed, however
often it is nominated again and dismissed in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.events import (
    BaselineAccepted,
    Compared,
    Event,
    RegressionConfirmed,
    RegressionDismissed,
    RegressionFixed,
    RegressionNominated,
)
from tensorfarm.farm.measure.verdict import Answer

LAST_ACCEPTED, ANCHOR = KINDS = ("last_accepted", "anchor")
METRIC = "step_seconds"


@dataclass(frozen=True)
class Contender:
    """An admitted artifact of a workload. ``ratio_to_eager`` is its step time over eager's, NaN where not measured.

    ``computes`` is the identity of what it computes, and on what.
    """

    workload: str
    candidate_id: str
    artifact_sha256: str
    computes: str
    ratio_to_eager: float
    device: str


@dataclass(frozen=True)
class Baseline:
    """What a workload is compared with, of one of ``KINDS``; the other fields as in ``Contender``."""

    kind: str
    candidate_id: str
    artifact_sha256: str
    computes: str
    ratio_to_eager: float


@dataclass(frozen=True)
class OpenRegression:
    """Confirmed and not fixed. ``artifact_sha256`` is the newest that was confirmed to be slower."""

    regression_id: str
    baseline: str
    baseline_artifact: str
    artifact_sha256: str
    ratio: float
    ratio_lower: float
    ratio_upper: float
    smallest_detectable: float


@dataclass(frozen=True)
class Book:
    """What is known of a workload, and the sweep and cell whose artifact is at hand."""

    sweep_id: str
    subject: str
    contender: Contender
    baselines: Sequence[Baseline]
    open: Sequence[OpenRegression]
    threshold: float

    def considered(self) -> list[Event]:
        """What follows from history alone, kind by kind: accepted, nominated, confirmed as known, fixed, or nothing."""
        known = {baseline.kind: baseline for baseline in self.baselines}
        told: list[Event] = []
        for kind in KINDS:
            if (baseline := known.get(kind)) is None:
                told.append(self._accepted(kind, "the first of this workload"))
            elif baseline.computes != self.contender.computes:
                told += self._begun_again(kind)
            elif kind == LAST_ACCEPTED or not self._same_as_last_accepted(baseline, known):
                told += self._held_against(baseline)
        return told

    def settled(self, compared: Sequence[Compared]) -> list[Event]:
        """What paired measurements mean, one for each nomination."""
        return [event for comparison in compared for event in self._settled(comparison)]

    def _held_against(self, baseline: Baseline) -> list[Event]:
        regression = self._open_against(baseline.kind, baseline.artifact_sha256)
        if baseline.artifact_sha256 == self.contender.artifact_sha256:
            return [] if regression is None else [self._fixed(regression, "the baseline's own artifact answers again")]
        if regression is not None:
            if regression.artifact_sha256 == self.contender.artifact_sha256:
                return [self._still_open(regression)]
            return [self._nominated(baseline, "a regression is open: measured again")]
        suspicion = self.contender.ratio_to_eager / baseline.ratio_to_eager
        if suspicion > 1 + self.threshold / 2:
            return [self._nominated(baseline, f"{suspicion:.3f} times the baseline's time, each held against eager")]
        known_and_fast = not math.isnan(suspicion) and baseline.kind == LAST_ACCEPTED
        return [self._accepted(baseline.kind, "no slower by history")] if known_and_fast else []

    def _settled(self, compared: Compared) -> list[Event]:
        about = self._about(compared)
        if compared.verdict == Answer.WORSE:
            return [RegressionConfirmed(**about)]
        regression = self._open_against(compared.baseline, compared.baseline_artifact)
        if compared.verdict not in (Answer.NO_WORSE, Answer.BETTER):
            return [RegressionDismissed(**about)]
        ended = RegressionDismissed(**about) if regression is None else RegressionFixed(**about)
        if compared.baseline == ANCHOR:
            return [ended]
        return [ended, self._accepted(LAST_ACCEPTED, f"measured in pairs: {compared.message}")]

    def _begun_again(self, kind: str) -> list[Event]:
        """Another program under the same name: nothing of before can be compared with it."""
        reason = "the program computes something else now"
        closed = [self._fixed(item, f"closed: {reason}") for item in self.open if item.baseline == kind]
        return [*closed, self._accepted(kind, reason)]

    def _same_as_last_accepted(self, anchor: Baseline, known: dict[str, Baseline]) -> bool:
        """While both are one artifact, one of them says it all; an open regression must still come to its end."""
        last = known.get(LAST_ACCEPTED)
        same = last is not None and last.artifact_sha256 == anchor.artifact_sha256
        return same and self._open_against(ANCHOR, anchor.artifact_sha256) is None

    def _open_against(self, kind: str, artifact_sha256: str) -> OpenRegression | None:
        wanted = regression_id(self.contender.workload, kind, artifact_sha256)
        return next((item for item in self.open if item.regression_id == wanted), None)

    def _accepted(self, kind: str, reason: str) -> BaselineAccepted:
        at = self.contender
        return BaselineAccepted(
            self.sweep_id, self.subject, at.workload, at.candidate_id, at.artifact_sha256, kind, METRIC, "sweep", reason
        )

    def _nominated(self, baseline: Baseline, message: str) -> RegressionNominated:
        identity = regression_id(self.contender.workload, baseline.kind, baseline.artifact_sha256)
        suspicion = self.contender.ratio_to_eager / baseline.ratio_to_eager
        return RegressionNominated(
            **self._identity(identity, baseline.kind, baseline.artifact_sha256),
            **_measured(suspicion, 0.0, math.inf, math.inf),
            verdict="",
            message=message,
        )

    def _fixed(self, regression: OpenRegression, message: str) -> RegressionFixed:
        return RegressionFixed(**self._of(regression), verdict=Answer.NO_WORSE, message=message)

    def _still_open(self, regression: OpenRegression) -> RegressionConfirmed:
        message = f"the artifact that was confirmed to take {regression.ratio:.3f} times the baseline's time"
        return RegressionConfirmed(**self._of(regression), verdict=Answer.WORSE, message=message)

    def _of(self, regression: OpenRegression) -> dict[str, Any]:
        return self._identity(regression.regression_id, regression.baseline, regression.baseline_artifact) | _measured(
            regression.ratio, regression.ratio_lower, regression.ratio_upper, regression.smallest_detectable
        )

    def _about(self, compared: Compared) -> dict[str, Any]:
        identity = regression_id(self.contender.workload, compared.baseline, compared.baseline_artifact)
        return {
            **self._identity(identity, compared.baseline, compared.baseline_artifact),
            **_measured(compared.ratio, compared.ratio_lower, compared.ratio_upper, compared.smallest_detectable),
            "verdict": compared.verdict,
            "message": compared.message,
        }

    def _identity(self, identity: str, kind: str, baseline_artifact: str) -> dict[str, Any]:
        return {
            "sweep_id": self.sweep_id,
            "subject": self.subject,
            "regression_id": identity,
            "workload": self.contender.workload,
            "candidate_id": self.contender.candidate_id,
            "artifact_sha256": self.contender.artifact_sha256,
            "baseline": kind,
            "baseline_artifact": baseline_artifact,
            "metric": METRIC,
            "device": self.contender.device,
        }


def regression_id(workload: str, kind: str, baseline_artifact: str) -> str:
    """One suspicion, however often it comes up: the same workload against the same baseline."""
    return sha256_json([workload, METRIC, kind, baseline_artifact])[:24]


def _measured(ratio: float, lower: float, upper: float, smallest: float) -> dict[str, Any]:
    return {"ratio": ratio, "ratio_lower": lower, "ratio_upper": upper, "smallest_detectable": smallest}
