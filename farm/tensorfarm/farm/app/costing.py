"""A sweep's costs: what is predicted of a candidate before it is measured, and whether it is worth compiling at all.

Without a calibrated model nothing is predicted, and nothing is rejected: a guess is no prediction. Invariant: the
reference is measured, only the candidate is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.contract.refusal import Refusal
from tensorfarm.cost_model.budget import Worth, worth
from tensorfarm.cost_model.calibrate import CostModel
from tensorfarm.cost_model.features import Checkpoint, Features
from tensorfarm.cost_model.fit import Prediction
from tensorfarm.farm.app.kept_model import newest_model
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.plan import Cell
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


@dataclass(frozen=True)
class CostDesk:
    """What a sweep's desk asks about costs. ``calls`` is how often an artifact will be called, if that is known."""

    sweep_id: str
    layout: StoreLayout
    model: CostModel | None
    calls: float | None

    @staticmethod
    def open(sweep_id: str, layout: StoreLayout, target: str, calls: float | None) -> CostDesk:
        """With the newest model of this target, which holds for the whole sweep.

        One of another format is as good as none: ``farm report cost`` says so where a sweep need not stop for it.
        """
        with Reader(layout) as reader:
            try:
                model = newest_model(reader, target)
            except Refusal:
                model = None
        return CostDesk(sweep_id, layout, model, calls)

    def submitted(self, command: c.Submit, event: e.CandidateSubmitted) -> Iterable[e.Event]:
        """Predictions from the captured graph; then, if the candidate would not earn back its cost, its rejection."""
        if (model := self.model) is None or "captured" not in command.features:
            return
        features, backend = Features.from_json(command.features["captured"]), command.cell.backend
        step = model.predict(features, backend)
        compiling = model.compile_time.predict(features, backend)
        about = (event.subject, event.candidate_id, Checkpoint.CAPTURED, features)
        yield self._made(model, *about, "step_seconds", step)
        yield self._made(model, *about, "compile_seconds", compiling)
        if self.calls is not None and (judged := self._judged(event, step, compiling)) is not None:
            yield judged

    def lowered(self, cell: Cell, event: e.CandidateCompiled) -> Iterable[e.Event]:
        """The prediction from what was built."""
        if (model := self.model) is None or "lowered" not in event.features:
            return
        features = Features.from_json(event.features["lowered"])
        step = model.predict(features, cell.backend)
        yield self._made(model, cell.id, event.candidate_id, Checkpoint.LOWERED, features, "step_seconds", step)

    def _judged(self, event: e.CandidateSubmitted, step: Prediction, compiling: Prediction) -> e.TaskRejected | None:
        reference = self._reference(event)
        if reference is None or self.calls is None:
            return None
        found = worth(
            compile_seconds=compiling.predicted,
            gate_seconds=reference["gate_seconds"],
            reference_seconds=reference["eager_seconds"],
            candidate=step,
            expected_calls=self.calls,
        )
        # What is unlike everything measured so far is given the benefit of its interval, or it would never be measured.
        after = found.at_best if step.out_of_distribution else found.break_even_calls
        return None if after <= self.calls else self._rejected(event, found, reference, step, compiling)

    def _reference(self, event: e.CandidateSubmitted) -> Mapping[str, Any] | None:
        """What eager takes for this program here; None where that was never measured."""
        with Reader(self.layout) as reader:
            rows = reader.named(
                "reference_of_program", semantic_hash=event.semantic_hash, mode=event.mode, target=event.target
            ).to_pylist()
        return rows[0] if rows else None

    def _rejected(
        self,
        event: e.CandidateSubmitted,
        found: Worth,
        reference: Mapping[str, float],
        step: Prediction,
        compiling: Prediction,
    ) -> e.TaskRejected:
        return e.TaskRejected(
            self.sweep_id,
            event.subject,
            candidate_id=event.candidate_id,
            break_even_calls=found.break_even_calls,
            expected_calls=found.expected_calls,
            message=f"{_pays(found.break_even_calls)}, {found.expected_calls:,.0f} calls expected",
            evidence={
                **reference,
                "predicted_step_seconds": step.predicted,
                "predicted_compile_seconds": compiling.predicted,
            },
        )

    def _made(
        self,
        model: CostModel,
        subject: str,
        candidate_id: str,
        checkpoint: Checkpoint,
        features: Features,
        metric: str,
        prediction: Prediction,
    ) -> e.PredictionMade:
        return e.PredictionMade(
            self.sweep_id,
            subject,
            candidate_id=candidate_id,
            metric=metric,
            checkpoint=checkpoint,
            predicted=prediction.predicted,
            lower=prediction.lower,
            upper=prediction.upper,
            model_id=model.id,
            peaks_id=model.peaks.id,
            features_hash=features.hash,
            out_of_distribution=prediction.out_of_distribution,
        )


def _pays(calls: float) -> str:
    return f"pays for itself after {calls:,.0f} calls" if calls < float("inf") else "never pays for itself"
