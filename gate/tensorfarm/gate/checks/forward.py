"""F1 and F5, forward: every floating output, element by element, within the budget that its condition number earns.

No norms: one wrong lane in a million is a fault. A whole verdict without one compared element is no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, drawn, passed
from tensorfarm.gate.observation import Observation

NAME = "forward"


def check(
    contract: NumericalContract, expectation: Expectation, seen: Observation, others: Sequence[Finding]
) -> list[Finding]:
    """One finding for each floating output, or one for all where there is none.

    ``others`` are those about integers and about what was written to: their elements count as compared too.
    """
    if expectation.random:
        return [drawn(NAME, "outputs")]
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
    if not any(finding.n_elements or finding.status is Status.FAIL for finding in (*found, *others)):
        message = "outputs: not one element could be compared; give example inputs whose outputs are not empty"
        found.append(Finding(NAME, "outputs", Status.NOT_RUN, message))
    return found or [passed(NAME, "outputs")]
