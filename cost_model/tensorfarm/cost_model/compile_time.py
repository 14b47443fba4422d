"""How long a compilation will take, from the captured graph: once it is lowered, nearly all of it is over.

The same fit as for run time, over counts of fused groups, which stand for kernels, and library calls. The prior is a
machine of 2026 with g++; it is rough, and says so by its interval until there are samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.fit import Fit, HeldOut, Prediction, fitted
from tensorfarm.cost_model.shrinkage import Vector
from tensorfarm.cost_model.work import EXTERNAL

# Seconds for: being started, a node of the graph, a fused group, a library call.
_PRIOR: Mapping[str, tuple[float, ...]] = {"fx": (0.02, 3e-4, 0.0, 0.0), "inductor": (4.0, 0.02, 0.3, 0.05)}
_UNKNOWN_BACKEND = (1.0, 0.01, 0.1, 0.05)


@dataclass(frozen=True)
class CompileSample:
    """A compilation that was timed."""

    program: str
    backend: str
    features: Features
    seconds: float


@dataclass(frozen=True)
class CompileTime:
    """``fits`` by backend; one without samples is predicted by its prior."""

    fits: Mapping[str, Fit]

    @staticmethod
    def fit(samples: Sequence[CompileSample]) -> tuple[CompileTime, Mapping[str, HeldOut]]:
        """Returns the held-out errors of each fit too."""
        fits: dict[str, Fit] = {}
        errors: dict[str, HeldOut] = {}
        for backend in sorted({sample.backend for sample in samples}):
            own = [sample for sample in samples if sample.backend == backend]
            rows = np.array([_columns(sample.features) for sample in own])
            seconds = np.array([sample.seconds for sample in own])
            programs = [sample.program for sample in own]
            fits[backend], errors[backend] = fitted(_prior(backend), rows, seconds, programs, HeldOut())
        return CompileTime(fits), errors

    def predict(self, features: Features, backend: str) -> Prediction:
        """Seconds to compile."""
        return self.fits.get(backend, Fit(tuple(_prior(backend)))).predict(_columns(features))

    def as_json(self) -> dict[str, Any]:
        return {name: fit.as_json() for name, fit in self.fits.items()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CompileTime:
        return CompileTime({name: Fit.from_json(fit) for name, fit in value.items()})


def _prior(backend: str) -> Vector:
    return np.array(_PRIOR.get(backend, _UNKNOWN_BACKEND))


def _columns(features: Features) -> Vector:
    external = sum(count for work, count in features.groups if work.kind in EXTERNAL)
    return np.array([1.0, features.n_nodes, features.n_groups - external, external], dtype=np.float64)
