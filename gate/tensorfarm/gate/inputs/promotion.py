"""The example's floating leaves in another dtype, one at a time and as two kinds of halves.

What the result's becomes is the original's say.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import torch

from tensorfarm.gate.inputs.refill import copied, floats, wanting
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "dtype"


def trials(setting: Setting) -> list[Trial]:
    """``dtype:LEAF:DTYPE``, ``zero_dim`` among them, and ``dtype:halves``.

    None for a subject that is made for its example's dtypes.
    """
    if not setting.facts.guarded:
        return []
    found = [
        _trial(setting, f"{name}:{kind}", {name: converted})
        for name, example in floats(setting).items()
        for kind, convert in CONVERSIONS.items()
        if (converted := convert(example.detach())) is not None
    ]
    halves = _halves(setting)
    return [*found, _trial(setting, "halves", halves)] if len(halves) > 1 else found


def _halves(setting: Setting) -> dict[str, torch.Tensor]:
    """Every real floating leaf in half precision, float16 and bfloat16 in turn: neither holds the other's numbers."""
    real = {name: example for name, example in floats(setting).items() if not example.is_complex()}
    turns = itertools.cycle((torch.float16, torch.bfloat16))
    return {
        name: example.detach().to(dtype, copy=True) for (name, example), dtype in zip(real.items(), turns, strict=False)
    }


def widened(setting: Setting) -> dict[str, torch.Tensor]:
    """Every real floating leaf in float64, in float32 where it is that already, on storages of their own."""
    return {
        name: example.detach().to(torch.float32 if example.dtype is torch.float64 else torch.float64)
        for name, example in floats(setting).items()
        if not example.is_complex()
    }


def _trial(setting: Setting, told: str, converted: Mapping[str, torch.Tensor]) -> Trial:
    inputs = wanting(setting, {**copied(setting), **converted})
    return Trial(f"{NAME}:{told}", (Call(inputs, seed=setting.seed),), Depth.EAGER, suite=NAME)


def _to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor | None]:
    def converted(value: torch.Tensor) -> torch.Tensor | None:
        if value.dtype == dtype or value.is_complex():
            return None
        return (value if dtype.is_floating_point else value.double().nan_to_num(0.0, 0.0, 0.0).round()).to(dtype)

    return converted


def _zero_dim(value: torch.Tensor) -> torch.Tensor | None:
    return value.reshape(-1)[0].clone() if value.dim() and value.numel() else None


CONVERSIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "float16": _to(torch.float16),
    "bfloat16": _to(torch.bfloat16),
    "float64": _to(torch.float64),
    "int32": _to(torch.int32),
    "bool": _to(torch.bool),
    "zero_dim": _zero_dim,
}
