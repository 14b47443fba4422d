"""F2, integers: integer and boolean outputs bit for bit. A relative tolerance on an index hides being off by one."""

from __future__ import annotations

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, drawn
from tensorfarm.gate.observation import Observation

NAME = "integers"


def check(contract: NumericalContract, expectation: Expectation, seen: Observation) -> list[Finding]:
    """One finding for each output of integers or booleans."""
    return [
        drawn(NAME, f"output {position}")
        if expectation.random
        else agreement(NAME, f"output {position}", seen.outputs.get(position), expected, contract.outputs, 0.0)
        for position, expected in enumerate(expectation.outputs)
        if isinstance(expected, Expected) and not (expected.eager.is_floating_point() or expected.eager.is_complex())
    ]
