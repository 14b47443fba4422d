"""Whether the original can be a witness at all: a program that the contract is about, an answer, tensors in it.

Invariant: where it cannot, that is said in one finding which keeps the verdict from being a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, not_run
from tensorfarm.gate.inputs.outside import outside_declared
from tensorfarm.gate.observation import spoken
from tensorfarm.gate.opaque import holds_tensors
from tensorfarm.gate.seal import Sealed
from tensorfarm.gate.setting import Setting

NAME = "witness"
_REGISTER = "return them themselves, or register the class by torch.export.register_dataclass or torch.utils._pytree"


def unfit_inputs(setting: Setting) -> list[Finding]:
    """One finding for each input outside what the contract declares; empty where all are inside."""
    return [Finding(NAME, "inputs", Status.NOT_RUN, sentence) for sentence in outside_declared(setting)]


def unfit_parameters(contract: NumericalContract, dtypes: Mapping[str, torch.dtype]) -> list[Finding]:
    """A finding where floating parameters have another dtype than the contract declares."""
    return _of_other_dtypes("parameter", dtypes, contract.dtypes.params, contract.id)


def unfit_answers(contract: NumericalContract, example: Sequence[Expectation]) -> list[Finding]:
    """A finding where no call of the example was answered by the original, one gave nothing to compare, or outputs have
    another dtype than the contract declares."""
    errors = [expected.eager.report.error for expected in example]
    if all(errors):
        message = f"the original raises on the example inputs: {errors[0]}"
        return [Finding(NAME, "original", Status.NOT_RUN, message)]
    dtypes: dict[str, torch.dtype] = {}
    for expected in example:
        report = expected.eager.report
        if report.error:
            continue
        outputs = expected.eager.named("output")
        unseen = next((item for item in report.literals.items() if holds_tensors(item[1])), None)
        if unseen is not None:
            fact = f"output {unseen[0]} of the original is {unseen[1]}, and what is in them cannot be compared"
            return [not_run(NAME, "original", fact, _REGISTER)]
        if not outputs and not expected.changed:
            kinds = ", ".join(sorted({str(value) for value in report.literals.values()})) or "nothing"
            message = f"the original returns no tensor ({kinds}), so there is no value to compare"
            return [Finding(NAME, "original", Status.NOT_RUN, message)]
        dtypes |= {name: value.dtype for name, value in outputs.items()}
    return _of_other_dtypes("output", dtypes, contract.dtypes.outputs, contract.id)


def unsteady(example: Sequence[Expectation]) -> list[Finding]:
    """A finding where the original, called again from the same state on the same inputs, gives another value: whatever
    is compared with it then proves nothing."""
    keys = [expected.unsteady for expected in example if expected.unsteady]
    if not keys:
        return []
    fact = (
        f"the original gives another {spoken(keys[0])} when it is called again: it draws numbers that "
        "torch.manual_seed does not reach, or keeps count in an attribute"
    )
    return [not_run(NAME, "original", fact, "make it repeat itself")]


def compiling(example: Sequence[Expectation]) -> list[Finding]:
    """A finding where the original compiles a part of itself when it is called: the judge's process has no compiler, so
    nothing is known of what it answers."""
    errors = [
        expected.eager.report.error for expected in example if expected.eager.report.error_type == Sealed.__name__
    ]
    if not errors:
        return []
    message = f"the original compiles when it is called, which its witness may not: {errors[0]}"
    return [Finding(NAME, "original", Status.NOT_RUN, message)]


def _of_other_dtypes(word: str, dtypes: Mapping[str, torch.dtype], declared: str, contract_id: str) -> list[Finding]:
    """One finding for all of them, which names the first; integers and booleans have no declared dtype."""
    if declared == "any":
        return []
    floating = {name: dtype for name, dtype in dtypes.items() if dtype.is_floating_point or dtype.is_complex}
    other = {name: dtype for name, dtype in floating.items() if _word(dtype.to_real()) != declared}
    if not other:
        return []
    name, dtype = next(iter(other.items()))
    more = f" (and {len(other) - 1} more {word}s)" if len(other) > 1 else ""
    message = f"{word} {name} is {_word(dtype)}{more}; contract {contract_id} declares {declared} {word}s"
    return [Finding(NAME, f"{word}s", Status.NOT_RUN, message)]


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
