"""The cost model of a machine: analytic columns from its peaks, with factors calibrated on what was measured there.

Each backend and mode has factors of its own, drawn toward those of all backends that run the same rows (operators or
groups), which are drawn toward physics. Invariant: a model without samples is the roofline, with wide intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorfarm.contract.digest import finite, sha256_json
from tensorfarm.cost_model.compile_time import CompileSample, CompileTime
from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.fit import Fit, HeldOut, Prediction, fitted
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.cost_model.roofline import CAUSE_OF, COLUMNS, PRIOR, columns, fuses
from tensorfarm.cost_model.shrinkage import Matrix, Vector

FORMAT = "tensorfarm.cost-model/2"


@dataclass(frozen=True)
class Sample:
    """A measured step. ``program`` is its semantic hash; ``backend`` is ``eager`` or a pipeline's (fx, inductor)."""

    program: str
    backend: str
    features: Features
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """A model, and how it did on programs that it had not seen: by ``backend/mode``; compile time by backend."""

    model: CostModel
    held_out_by: Mapping[str, HeldOut]
    compile_held_out_by: Mapping[str, HeldOut]

    @property
    def held_out(self) -> HeldOut:
        """All run times together."""
        errors = tuple(error for held in self.held_out_by.values() for error in held.log_errors)
        return HeldOut(errors, tuple(program for held in self.held_out_by.values() for program in held.programs))


@dataclass(frozen=True)
class CostModel:
    """``fits`` by ``backend/mode``, and by ``ops`` and ``groups`` for what has no samples of its own."""

    peaks: Peaks
    fits: Mapping[str, Fit]
    compile_time: CompileTime

    @staticmethod
    def fit(samples: Sequence[Sample], peaks: Peaks, compiles: Sequence[CompileSample] = ()) -> Calibration:
        """Calibrate and cross-validate, over programs."""
        fits: dict[str, Fit] = {}
        errors: dict[str, HeldOut] = {}
        for view, fusing in (("ops", False), ("groups", True)):
            own = [sample for sample in samples if fuses(sample.backend) is fusing]
            fits[view], pooled = _fitted(PRIOR, own, peaks, HeldOut())
            for key in sorted({_key(sample.backend, sample.features) for sample in own}):
                of_key = [sample for sample in own if _key(sample.backend, sample.features) == key]
                fits[key], errors[key] = _fitted(np.array(fits[view].factors), of_key, peaks, pooled)
        compile_time, compile_errors = CompileTime.fit(compiles)
        return Calibration(CostModel(peaks, fits, compile_time), errors, compile_errors)

    def predict(self, features: Features, backend: str) -> Prediction:
        """Seconds of one step of what ``features`` describe, in their mode, as ``backend`` runs it."""
        view = "groups" if fuses(backend) else "ops"
        fit = self.fits.get(_key(backend, features), self.fits[view])
        return fit.predict(columns(features, backend, self.peaks))

    @cached_property
    def id(self) -> str:
        return sha256_json(finite(self.as_json()))[:16]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "columns": list(COLUMNS),
            "peaks": self.peaks.as_json(),
            "fits": {name: fit.as_json() for name, fit in self.fits.items()},
            "compile_time": self.compile_time.as_json(),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CostModel:
        """Raises KeyError or ValueError where ``value`` is of another format or has other columns."""
        if value["format"] != FORMAT or tuple(value["columns"]) != COLUMNS:
            raise ValueError(f"a cost model of format {value['format']!r} or with other columns, not {FORMAT}")
        fits = {name: Fit.from_json(fit) for name, fit in value["fits"].items()}
        return CostModel(Peaks.from_json(value["peaks"]), fits, CompileTime.from_json(value["compile_time"]))


def _key(backend: str, features: Features) -> str:
    return f"{backend}/{features.mode}"


def _fitted(prior: Vector, samples: Sequence[Sample], peaks: Peaks, wider: HeldOut) -> tuple[Fit, HeldOut]:
    matrix: Matrix = np.array([columns(item.features, item.backend, peaks) for item in samples]).reshape(-1, len(prior))
    seconds = np.array([sample.seconds for sample in samples], dtype=np.float64)
    return fitted(prior, matrix, seconds, [sample.program for sample in samples], wider, CAUSE_OF)
