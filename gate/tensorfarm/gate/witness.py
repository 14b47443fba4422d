"""Whether the original can be a witness at all: inputs that the contract is about, an answer, tensors in it.

Invariant: where it cannot, that is said in one finding which keeps the verdict from being a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.inputs.outside import outside_declared
from tensorfarm.gate.setting import Setting

NAME = "witness"


def unfit_inputs(setting: Setting) -> list[Finding]:
    """One finding for each input outside what the contract declares; empty where all are inside."""
    return [Finding(NAME, "inputs", Status.NOT_RUN, sentence) for sentence in outside_declared(setting)]


def unfit_answers(example: Sequence[Expectation]) -> list[Finding]:
    """A finding where the original raised on the example inputs, or gave nothing that could be compared."""
    for expected in example:
        report = expected.eager.report
        if report.error:
            message = f"the original raises on the example inputs: {report.error}"
            return [Finding(NAME, "original", Status.NOT_RUN, message)]
        if not expected.eager.named("output") and not expected.changed:
            kinds = ", ".join(sorted({str(value) for value in report.literals.values()})) or "nothing"
            message = f"the original returns no tensor ({kinds}), so there is no value to compare"
            return [Finding(NAME, "original", Status.NOT_RUN, message)]
    return []
