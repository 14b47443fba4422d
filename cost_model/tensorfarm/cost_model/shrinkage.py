"""Fitting factors to measurements without leaving the prior further than the measurements ask for.

Invariant: with no sample the factors are the prior; no factor is further from it than fivefold, so more work always
costs more and no single family of programs can bend a cause beyond reason.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = npt.NDArray[np.float64]

# The prior counts as much as this many samples in which a column has its usual share of the time.
PRIOR_SAMPLES = 3.0
# Beyond this log error a sample loses weight: one odd program does not move the rest.
_ROBUST_LOG_ERROR = 0.3
_ROUNDS = 6
_FURTHEST = 5.0
_SWEEPS, _SETTLED = 100, 1e-4
# A sum of columns is never less, so that it has a logarithm.
LEAST_SECONDS = 1e-9


def fit_toward(prior: Vector, columns: Matrix, seconds: Vector, causes: Matrix | None = None) -> Vector:
    """Factors of least squared log error between ``columns @ x`` and ``seconds``, drawn to ``prior``.

    ``columns`` has shape (samples, factors). The weights ``1 / (predicted · measured)`` make a squared difference equal
    to a squared log ratio for small errors, over and under alike; they are renewed each round. ``causes``, of shape
    (factors, causes) with a single one in each row, has factors of one cause drawn to a common one first: a few
    programs can tell that all dispatches are slower, and not yet which.
    """
    if not len(seconds):
        return prior
    if causes is not None:
        common = fit_toward(np.ones(causes.shape[1]), (columns * prior) @ causes, seconds)
        prior = prior * (causes @ common)
    factors = prior
    for _ in range(_ROUNDS):
        predicted = np.maximum(columns @ factors, LEAST_SECONDS)
        error = np.log(predicted / seconds)
        weight = 1 / np.sqrt(predicted * seconds * np.sqrt(1 + (error / _ROBUST_LOG_ERROR) ** 2))
        scaled = columns * weight[:, None]
        pull = np.sqrt(PRIOR_SAMPLES * np.mean(scaled**2, axis=0)) + LEAST_SECONDS
        square = scaled.T @ scaled + np.diag(pull**2)
        factors = _bounded(square, scaled.T @ (seconds * weight) + pull**2 * prior, factors, prior)
    return factors


def _bounded(square: Matrix, right: Vector, start: Vector, prior: Vector) -> Vector:
    """Minimise ``x·square·x / 2 - right·x`` near the prior, one factor after the other: convex, so it converges."""
    low, high = prior / _FURTHEST, prior * _FURTHEST
    found = start.copy()
    for _ in range(_SWEEPS):
        before = found.copy()
        for place in range(len(found)):
            step = (right[place] - square[place] @ found) / square[place, place]
            found[place] = min(max(found[place] + step, low[place]), high[place])
        if np.max(np.abs(found - before)) < _SETTLED:
            break
    return found
