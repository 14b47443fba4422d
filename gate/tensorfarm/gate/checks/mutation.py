"""F17, mutation: what the reference leaves alone keeps every byte; what it writes to holds what it writes.

Whole storages are compared, gaps of strided views included. What a program that draws random numbers writes may hang on
them, and is not compared.
"""

from __future__ import annotations

import torch

from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import storage_sha256, tensor_sha256
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, drawn, failed, passed
from tensorfarm.gate.observation import Observation

NAME = "mutation"


def check(program: Program, contract: NumericalContract, expectation: Expectation, seen: Observation) -> list[Finding]:
    """One finding for each tensor input and each buffer."""

    def written(what: str, after: torch.Tensor | None, expected: Expected) -> Finding:
        if expectation.random:
            return drawn(NAME, what)
        return agreement(NAME, what, after, expected, contract.outputs, contract.digits_undecidable_below)

    found: list[Finding] = []
    for name, before in program.inputs.items():
        what = f"input {name}"
        after, expected = seen.inputs.get(name), expectation.inputs.get(name)
        if expected is not None:
            found.append(written(what, after, expected))
        elif after is None:
            found.append(failed(NAME, what, "the subject did not say what became of it"))
        elif storage_sha256(after) != storage_sha256(before):
            found.append(failed(NAME, what, "it was written to, and the original does not write to it"))
        else:
            found.append(passed(NAME, what))
    for weight in program.graph.weights.values():
        if weight.kind is not WeightKind.BUFFER:
            continue
        what = f"buffer {weight.target}"
        after, expected = seen.buffers.get(weight.target), expectation.buffers.get(weight.target)
        if expected is not None:
            found.append(written(what, after, expected))
        elif after is not None and tensor_sha256(after) != weight.sha256:
            found.append(failed(NAME, what, "it was written to, and the original does not write to it"))
        else:
            found.append(passed(NAME, what))
    return found
