"""One fitted sum of columns: its factors, how far off it was on programs it did not see, and what it has seen.

Whatever is predicted as a sum of columns, run time or compile time, is fitted and predicted by this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensorfarm.cost_model.intervals import DEFAULT_HALF_WIDTH, LEAST_PROGRAMS, half_width
from tensorfarm.cost_model.shrinkage import LEAST_SECONDS, Matrix, Vector, fit_toward

N_FOLDS = 5
# How far outside of the seconds seen, as a ratio, a prediction is still within the distribution.
_RANGE = 2.0
# A column that makes this much of a prediction must have made at least a tenth of it of some sample.
_SHARE = 0.25


@dataclass(frozen=True)
class Prediction:
    """Seconds; the interval holds 90 %. ``out_of_distribution``: unlike everything that the model was fitted to."""

    predicted: float
    lower: float
    upper: float
    out_of_distribution: bool


@dataclass(frozen=True)
class HeldOut:
    """Log errors (predicted over measured) on programs that the fit had not seen, and whose program each is."""

    log_errors: tuple[float, ...] = ()
    programs: tuple[str, ...] = ()

    @property
    def n_programs(self) -> int:
        return len(set(self.programs))

    @property
    def median_error(self) -> float:
        """The median of ``|predicted / measured - 1|``; NaN where nothing was held out."""
        return float(np.median(np.abs(np.expm1(self.log_errors)))) if self.log_errors else math.nan

    @property
    def coverage(self) -> float:
        """How many of the errors lie within the interval that the other programs give; NaN where there is none."""
        within = [self._within(program, error) for program, error in zip(self.programs, self.log_errors, strict=True)]
        return sum(within) / len(within) if within else math.nan

    def _within(self, program: str, error: float) -> bool:
        others = [other for name, other in zip(self.programs, self.log_errors, strict=True) if name != program]
        return abs(error) <= half_width(others, self.n_programs - 1)


@dataclass(frozen=True)
class Fit:
    """Factors by column and what is known of their worth. ``shares`` are the largest that a column had of any sample.

    ``half_width`` is in log seconds; ``low`` and ``high`` are the seconds seen, 0 where nothing was.
    """

    factors: tuple[float, ...]
    n_programs: int = 0
    half_width: float = DEFAULT_HALF_WIDTH
    low: float = 0.0
    high: float = 0.0
    shares: tuple[float, ...] = ()

    def predict(self, columns: Vector) -> Prediction:
        parts = columns * np.array(self.factors)
        seconds = max(float(parts.sum()), LEAST_SECONDS)
        strange = self._is_strange(seconds, parts / seconds)
        width = max(self.half_width, DEFAULT_HALF_WIDTH) if strange else self.half_width
        return Prediction(seconds, seconds * math.exp(-width), seconds * math.exp(width), strange)

    def _is_strange(self, seconds: float, shares: Vector) -> bool:
        if not self.n_programs or not self.low / _RANGE <= seconds <= self.high * _RANGE:
            return True
        return bool(np.any((shares > _SHARE) & (np.array(self.shares) < shares / 10)))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Fit:
        plain = {name: value[name] for name in ("n_programs", "half_width", "low", "high")}
        return Fit(factors=tuple(value["factors"]), shares=tuple(value["shares"]), **plain)


def fitted(
    prior: Vector,
    columns: Matrix,
    seconds: Vector,
    programs: Sequence[str],
    wider: HeldOut,
    causes: Matrix | None = None,
) -> tuple[Fit, HeldOut]:
    """Fit and cross-validate over programs. ``wider`` are errors to take the interval from where there are too few.

    ``causes`` as in ``fit_toward``. Returns the fit to all samples, and the errors of the fits without each fifth of
    the programs.
    """
    factors = fit_toward(prior, columns, seconds, causes)
    held = _held_out(prior, columns, seconds, programs, causes)
    basis = held if held.n_programs >= LEAST_PROGRAMS else wider
    return _fit_of(factors, columns, seconds, programs, basis), held


def _fit_of(factors: Vector, columns: Matrix, seconds: Vector, programs: Sequence[str], basis: HeldOut) -> Fit:
    """``factors`` with what the samples say about their reach."""
    if not len(seconds):
        return Fit(tuple(map(float, factors)), half_width=half_width(basis.log_errors, basis.n_programs))
    parts = columns * factors
    shares = parts / np.maximum(parts.sum(axis=1, keepdims=True), LEAST_SECONDS)
    return Fit(
        factors=tuple(map(float, factors)),
        n_programs=len(set(programs)),
        half_width=half_width(basis.log_errors, basis.n_programs),
        low=float(seconds.min()),
        high=float(seconds.max()),
        shares=tuple(map(float, shares.max(axis=0))),
    )


def _held_out(
    prior: Vector, columns: Matrix, seconds: Vector, programs: Sequence[str], causes: Matrix | None
) -> HeldOut:
    names = sorted(set(programs))
    if len(names) < N_FOLDS:
        return HeldOut()
    fold_of = {name: number % N_FOLDS for number, name in enumerate(names)}
    folds = np.array([fold_of[name] for name in programs])
    errors = np.zeros(len(seconds))
    for fold in range(N_FOLDS):
        unseen = folds == fold
        factors = fit_toward(prior, columns[~unseen], seconds[~unseen], causes)
        errors[unseen] = np.log(np.maximum(columns[unseen] @ factors, LEAST_SECONDS) / seconds[unseen])
    return HeldOut(tuple(map(float, errors)), tuple(programs))
