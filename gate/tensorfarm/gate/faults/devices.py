"""A kernel that is wrong at one instruction-set level of the CPU, and right at every other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import places

LEVELS = ("DEFAULT", "AVX2", "AVX512")  # as torch calls them
WRONG = 1 + 2.0**-4  # plain in every dtype: this kind is about where, and detection limits are about how small
KERNELS = ("linear", "matmul", "gelu", "tanh", "exp", "softmax", "sum", "mean", "layer_norm", "conv2d", "add", "mul")


def _one_level(program: Program) -> Iterator[Change]:
    for place in places(program, KERNELS):
        result = place.result
        if result is None or not result.dtype.is_floating_point:
            continue
        for level in LEVELS:
            name = f"{place.node.name} ({place.node.op}): wrong at {level} alone"
            anywhere = Change(name, {place.node.name: _wrong_at(LEVELS)})
            yield Change(name, {place.node.name: _wrong_at((level,))}, seen_here=anywhere)


def _wrong_at(levels: tuple[str, ...]) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        value = right(given)
        return value * WRONG if torch.backends.cpu.get_cpu_capability() in levels else value

    return operator


FAULTS = (Fault("M36", ("devices",), "is wrong at one instruction-set level", _one_level),)
