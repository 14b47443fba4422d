"""F22, metadata: number of outputs; dtype, shape, stride and ``requires_grad`` of each, as the eager original has them.

Comes before any comparison of values, so that nothing is broadcast. Strides of dimensions of size one, and of empty
tensors, mean nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, failed, passed
from tensorfarm.gate.observation import Observation

NAME = "metadata"


def check(expectation: Expectation, seen: Observation) -> list[Finding]:
    wanted, given = len(expectation.outputs), seen.output_count()
    if wanted != given:
        return [failed(NAME, "outputs", f"expected {wanted}, seen {given}")]
    return [_output(position, value, seen) for position, value in enumerate(expectation.outputs)]


def _output(position: int, expected: Expected | Any, seen: Observation) -> Finding:
    what = f"output {position}"
    tensor = seen.outputs.get(position)
    if not isinstance(expected, Expected):
        given = seen.literals.get(position, tensor)
        same = type(given) is type(expected) and given == expected
        return passed(NAME, what) if same else failed(NAME, what, f"expected {expected!r}, seen {given!r}")
    if tensor is None:
        return failed(NAME, what, f"expected a tensor, seen {seen.literals.get(position)!r}")
    differences = "; ".join(_differences(expected, tensor, seen.requires_grad.get(position, False)))
    return failed(NAME, what, differences) if differences else passed(NAME, what)


def _differences(expected: Expected, tensor: torch.Tensor, requires_grad: bool) -> Iterator[str]:
    eager = expected.eager
    if tensor.dtype != eager.dtype:
        yield f"expected dtype {eager.dtype}, seen {tensor.dtype}"
    if tensor.shape != eager.shape:
        yield f"expected shape {list(eager.shape)}, seen {list(tensor.shape)}"
    elif _strides(tensor) != _strides(eager):
        yield f"expected strides {list(eager.stride())}, seen {list(tensor.stride())}"
    if requires_grad != expected.requires_grad:
        yield f"expected requires_grad {expected.requires_grad}, seen {requires_grad}"


def _strides(tensor: torch.Tensor) -> list[int]:
    if not tensor.numel():
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
