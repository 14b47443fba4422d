"""Special values planted in the example, one trial a kind, so that a NaN does not hide what an infinity does.

Kinds that poison a sum are sparse: each stands alone in its row and column of the last two axes, and most rows and
columns have none. Kinds that are harmless are dense, so that zeros of both signs meet where two inputs are combined.
Noise says nothing about a special value: no trial but that of zeros, which has gradients, asks for a spread. What hangs
on the order of a sum, the oracle knows of every trial.
"""

from __future__ import annotations

from functools import partial

import torch

from tensorfarm.gate.inputs.refill import Place, backward
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Depth, Derivative, Trial

NAME = "special_values"
POISON = ("nan", "inf", "negative_inf", "max", "min")
HARMLESS = ("zeros", "subnormals")
NAMES = tuple(f"{NAME}:{kind}" for kind in (*POISON, *HARMLESS))
_SHARE = 0.25


def trials(setting: Setting) -> list[Trial]:
    """``special_values:KIND`` for every kind."""
    found = [trial(setting, kind) for kind in (*POISON, *HARMLESS)]
    return [item for item in found if item is not None]


def trial(setting: Setting, kind: str) -> Trial | None:
    draw = partial(_planted, kind=kind)
    derivative, depth = Derivative.NONE, Depth.EXACT
    if kind == "zeros":
        derivative, depth = backward(setting), Depth.BUDGET
    return drawn_trial(setting, NAME, draw, derivative, name=f"{NAME}:{kind}", depth=depth)


def _planted(place: Place, generator: torch.Generator, *, kind: str) -> torch.Tensor:
    shape = place.values.shape
    if kind in HARMLESS:
        where = torch.rand(shape, generator=generator) < _SHARE
        where.reshape(-1)[:1] = True
    else:
        where = sparse(shape, generator)
    info = torch.finfo(place.dtype)
    subnormal = info.smallest_normal * (1 - info.eps) if info.smallest_normal else 0.0
    value = {
        "nan": torch.nan,
        "inf": torch.inf,
        "negative_inf": -torch.inf,
        "max": info.max,
        "min": info.min,
        "zeros": 0.0,
        "subnormals": subnormal,
    }[kind]
    planted = torch.full(shape, value, dtype=torch.float64)
    if kind in HARMLESS:
        planted = planted * (torch.randint(0, 2, shape, generator=generator) * 2 - 1)
    return torch.where(where, planted, place.values)


def sparse(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Places no two of which share a row or a column, in a quarter of the rows and of the columns, at least in one.

    One is in the last column: a kernel's tail is code of its own.
    """
    where = torch.zeros(shape, dtype=torch.bool)
    if not where.numel():
        return where
    matrix = where.view(-1, shape[-1] if shape else 1)
    rows, columns = matrix.shape
    count = max(1, int(min(rows, columns) * _SHARE))
    chosen_rows = torch.randperm(rows, generator=generator)[:count]
    chosen_columns = torch.randperm(columns - 1, generator=generator)[: count - 1]
    matrix[chosen_rows, torch.cat([chosen_columns, torch.tensor([columns - 1])])] = True
    return where
