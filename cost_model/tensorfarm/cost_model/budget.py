"""Whether compiling is worth it: how many calls pay for it, against how many are expected.

The reference is always measured and only the candidate predicted: two predictions err apart, and their difference is
mostly error. Gate time is inside the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorfarm.cost_model.fit import Prediction


@dataclass(frozen=True)
class Worth:
    """Break-even calls as predicted, and at the fast end of the candidate's interval; infinite is never."""

    break_even_calls: float
    at_best: float
    expected_calls: float


def break_even_calls(spent_seconds: float, reference_seconds: float, candidate_seconds: float) -> float:
    """Calls after which what was spent has paid for itself; infinite where a call gains nothing."""
    gain = reference_seconds - candidate_seconds
    return spent_seconds / gain if gain > 0 else math.inf


def worth(
    *,
    compile_seconds: float,
    gate_seconds: float,
    reference_seconds: float,
    candidate: Prediction,
    expected_calls: float,
) -> Worth:
    """Weigh a candidate before it is compiled. ``reference_seconds`` is measured, ``candidate`` predicted."""

    def after(seconds: float) -> float:
        return break_even_calls(compile_seconds + gate_seconds, reference_seconds, seconds)

    return Worth(after(candidate.predicted), after(candidate.lower), expected_calls)
