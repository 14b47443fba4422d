"""F6, gradient: vector-Jacobian products against the reference's autograd, for every trained weight and wanting input.

The forward pass is right in most reported gradient faults. A gradient is None exactly where the reference's is.

Gradients are parts of one vector. Some are zero in the reals (a key's bias before a softmax) and hold nothing but
rounding: their limits are small beside the typical part, so they are decided by that scale and not by their own.
"""

from __future__ import annotations

from statistics import median

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.program import Program
from tensorfarm.gate.agreement import agreement, root_mean_square
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, drawn, failed, passed
from tensorfarm.gate.observation import Observation

NAME = "gradient"


def check(program: Program, contract: NumericalContract, expectation: Expectation, seen: Observation) -> list[Finding]:
    """One finding for each gradient. Not run where the program has nothing to differentiate."""
    if expectation.random:
        return [drawn(NAME, "gradients")]
    if not any(expectation.gradients.values()):
        message = "gradients: no output has a gradient by a weight or an input"
        return [Finding(NAME, "gradients", Status.NOT_RUN, f'{message}; sweep it with "mode: inference"')]
    scale = median(root_mean_square(item.exact) for item in expectation.gradients.values() if item is not None)
    weights = program.graph.weights
    found: list[Finding] = []
    for name, expected in expectation.gradients.items():
        what = f"gradient {weights[name].target if name in weights else name}"
        given = seen.gradients.get(name)
        if expected is not None:
            digits = contract.digits_undecidable_below
            found.append(agreement(NAME, what, given, expected, contract.gradients, digits, scale))
        elif given is not None:
            found.append(failed(NAME, what, "the reference has none there"))
        else:
            found.append(passed(NAME, what))
    return found
