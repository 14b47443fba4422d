"""How wide a 90 % interval is: conformal, from log errors on programs that the fit did not see.

Symmetric in the logarithm: half as much is as wrong as twice as much. Invariant: with too few programs to say, the
interval is the default, which is wide on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

COVERAGE = 0.9
# Below this an error of one program in twenty decides the quantile.
LEAST_PROGRAMS = 20
DEFAULT_HALF_WIDTH = math.log(3.0)


def half_width(log_errors: Sequence[float], n_programs: int) -> float:
    """The half width in log seconds: the smallest error that at least 90 % of a new one and these do not exceed.

    Needs exchangeable errors, each from a fit without its own program.
    """
    if n_programs < LEAST_PROGRAMS:
        return DEFAULT_HALF_WIDTH
    ordered = sorted(abs(error) for error in log_errors)
    rank = math.ceil((len(ordered) + 1) * COVERAGE)
    return ordered[min(rank, len(ordered)) - 1]
