"""F1 and F5, forward: every floating output, element by element, within the budget that its condition number earns.

No norms: one wrong lane in a million is a fault. A whole verdict without one compared element is a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, failed
from tensorfarm.gate.observation import Observation

NAME = "forward"


def check(
    contract: NumericalContract, expectation: Expectation, seen: Observation, integers: Sequence[Finding]
) -> list[Finding]:
    """One finding for each floating output. ``integers`` count as compared outputs too."""
    if expectation.random:
        message = "outputs: the program draws random numbers, and their stream in float64 is another"
        return [Finding(NAME, "outputs", Status.NOT_RUN, message)]
    found = [
        agreement(
            NAME,
            f"output {position}",
            seen.outputs.get(position),
            expected,
            contract.outputs,
            contract.digits_undecidable_below,
        )
        for position, expected in enumerate(expectation.outputs)
        if isinstance(expected, Expected) and (expected.eager.is_floating_point() or expected.eager.is_complex())
    ]
    if not any(finding.n_elements or finding.status is Status.FAIL for finding in (*found, *integers)):
        found.append(failed(NAME, "outputs", "not one element of any output could be compared"))
    return found
