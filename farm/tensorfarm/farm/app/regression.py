"""A sweep's regressions: asks the store what a workload is compared with; the pure ``Book`` says what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorfarm.contract.events import Compared, Event
from tensorfarm.farm.measure.baseline import Baseline, Book, Contender, OpenRegression
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


def workload_of(program: str, pipeline: str, mode: str, target: str) -> str:
    """What artifacts are compared within: a cell's program and pipeline, how it runs, and where."""
    return f"{program}/{pipeline} {mode} {target}"


@dataclass(frozen=True)
class RegressionDesk:
    """``threshold`` is the slow-down that matters, as a share of the baseline's time."""

    layout: StoreLayout
    sweep_id: str
    threshold: float

    def considered(self, subject: str, workload: str, candidate_id: str, artifact_sha256: str) -> list[Event]:
        """After ``Measured`` or ``CacheAnswered`` is on disk: what history says of the artifact.

        ``RegressionNominated``: compare with its ``baseline_artifact`` next. ``RegressionConfirmed``: these bytes are
        known to be slower. ``BaselineAccepted``, ``RegressionFixed`` or nothing: the cell is done.
        """
        return self._book(subject, workload, candidate_id, artifact_sha256).considered()

    def settled(
        self, subject: str, workload: str, candidate_id: str, artifact_sha256: str, compared: Sequence[Compared]
    ) -> list[Event]:
        """What the comparisons mean. ``RegressionConfirmed`` among them: the cell is a performance regression."""
        return self._book(subject, workload, candidate_id, artifact_sha256).settled(compared)

    def candidate_of(self, workload: str, artifact_sha256: str) -> str:
        """The candidate that a baseline's artifact belongs to; empty where it is no baseline of this workload."""
        with Reader(self.layout) as reader:
            rows = reader.named("workload_baselines", workload=workload).to_pylist()
        return next((row["candidate_id"] for row in rows if row["artifact_sha256"] == artifact_sha256), "")

    def _book(self, subject: str, workload: str, candidate_id: str, artifact_sha256: str) -> Book:
        with Reader(self.layout) as reader:
            baselines = reader.named("workload_baselines", workload=workload).to_pylist()
            regressions = reader.named("open_regressions", workload=workload).to_pylist()
            at: dict[str, Any] = reader.named(
                "workload_artifact", candidate_id=candidate_id, artifact_sha256=artifact_sha256
            ).to_pylist()[0]
        contender = Contender(
            workload, candidate_id, artifact_sha256, at["computes"], at["ratio_to_eager"], at["device"]
        )
        return Book(
            self.sweep_id,
            subject,
            contender,
            [
                Baseline(
                    row["kind"], row["candidate_id"], row["artifact_sha256"], row["computes"], row["ratio_to_eager"]
                )
                for row in baselines
            ],
            [_open_regression(row) for row in regressions],
            self.threshold,
        )


def _open_regression(row: dict[str, Any]) -> OpenRegression:
    """A row of the query ``open_regressions``."""
    return OpenRegression(
        row["regression_id"],
        row["baseline"],
        row["baseline_artifact"],
        row["artifact_sha256"],
        row["ratio"],
        row["ratio_lower"],
        row["ratio_upper"],
        row["smallest_detectable"],
    )
