"""How long a compilation will take, at two checkpoints: once captured, and once lowered, when the kernels are known.

The same fit as for run time, over counts of kernels and library calls. The prior is a machine of 2026 with g++; it is
rough, and says so by its interval until there are samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.fit import Fit, HeldOut, Prediction, fitted
from tensorfarm.cost_model.shrinkage import Vector
from tensorfarm.cost_model.work import EXTERNAL

# Seconds for: being started, a node of the graph, a generated kernel, a library call.
_PRIOR: Mapping[str, tuple[float, ...]] = {"fx": (0.02, 3e-4, 0.0, 0.0), "inductor": (4.0, 0.02, 0.3, 0.05)}
_UNKNOWN_BACKEND = (1.0, 0.01, 0.1, 0.05)


class Checkpoint(StrEnum):
    """What is known when a prediction is made."""

    CAPTURED = "captured"
    LOWERED = "lowered"


@dataclass(frozen=True)
class CompileSample:
    """A compilation that was timed. ``kernels`` counts what was generated; 0 where the backend generates nothing."""

    program: str
    backend: str
    features: Features
    kernels: int
    seconds: float


@dataclass(frozen=True)
class CompileTime:
    """``fits`` by ``backend/checkpoint``; a backend without samples is predicted by its prior."""

    fits: Mapping[str, Fit]

    @staticmethod
    def fit(samples: Sequence[CompileSample]) -> tuple[CompileTime, Mapping[str, HeldOut]]:
        """Returns the held-out errors of each fit too."""
        fits: dict[str, Fit] = {}
        errors: dict[str, HeldOut] = {}
        for backend in sorted({sample.backend for sample in samples}):
            own = [sample for sample in samples if sample.backend == backend]
            for checkpoint in Checkpoint:
                lowered = checkpoint is Checkpoint.LOWERED
                rows = [_columns(item.features, item.kernels if lowered else None) for item in own]
                seconds = np.array([sample.seconds for sample in own])
                key, programs = f"{backend}/{checkpoint}", [sample.program for sample in own]
                fits[key], errors[key] = fitted(_prior(backend), np.array(rows), seconds, programs, HeldOut())
        return CompileTime(fits), errors

    def predict(self, features: Features, backend: str, kernels: int | None = None) -> Prediction:
        """Seconds to compile. ``kernels`` is known after lowering; before, the fused groups stand for them."""
        checkpoint = Checkpoint.CAPTURED if kernels is None else Checkpoint.LOWERED
        fit = self.fits.get(f"{backend}/{checkpoint}", Fit(tuple(_prior(backend))))
        return fit.predict(_columns(features, kernels))

    def as_json(self) -> dict[str, Any]:
        return {name: fit.as_json() for name, fit in self.fits.items()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CompileTime:
        return CompileTime({name: Fit.from_json(fit) for name, fit in value.items()})


def _prior(backend: str) -> Vector:
    return np.array(_PRIOR.get(backend, _UNKNOWN_BACKEND))


def _columns(features: Features, kernels: int | None) -> Vector:
    external = sum(count for work, count in features.groups if work.kind in EXTERNAL)
    generated = features.n_groups - external if kernels is None else kernels
    return np.array([1.0, features.n_nodes, generated, external], dtype=np.float64)
