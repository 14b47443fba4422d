"""Special values planted in the example, one trial a kind, so that a NaN does not hide what an infinity does.

Kinds that poison a sum are sparse: each stands alone in its row and column of the last two axes, and most rows and
columns have none. Kinds that are harmless are dense, so that zeros of both signs meet where two inputs are combined.
Noise says nothing about a special value: no trial but those of zeros, whose signs it may turn, asks for a spread. What
hangs on the order of a sum, the oracle knows of every trial.

Below the full level what is alike shares a call where every input has places enough for all of it: each place has one
kind, and only a program that mixes all places sees them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from tensorfarm.gate.inputs.refill import Place, floats
from tensorfarm.gate.inputs.suite import drawn_trial
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Derivative, Trial

NAME = "special_values"
POISON = ("nan", "inf", "negative_inf", "max", "min")
HARMLESS = ("zeros", "subnormals")
SHARED: Mapping[str, tuple[str, ...]] = {
    "nan": ("nan",),
    "extremes": ("inf", "negative_inf", "max", "min"),
    "harmless": HARMLESS,
}
NAMES = tuple(f"{NAME}:{kind}" for kind in dict.fromkeys((*POISON, *HARMLESS, *SHARED)))
_SHARE = 0.25
_MOST_SHARED = max(map(len, SHARED.values()))


def trials(setting: Setting) -> list[Trial]:
    """``special_values:KIND`` for every kind, below the full level for those that can share a call."""
    kinds = {kind: (kind,) for kind in (*POISON, *HARMLESS)}
    if setting.level < Level.FULL and all(_count(value.shape) >= _MOST_SHARED for value in floats(setting).values()):
        kinds = SHARED
    found = [_trial(setting, name, planted) for name, planted in kinds.items()]
    return [item for item in found if item is not None]


def _trial(setting: Setting, name: str, kinds: tuple[str, ...]) -> Trial | None:
    depth = Depth.BUDGET if "zeros" in kinds else Depth.EXACT
    draw = partial(_planted, kinds=kinds)
    return drawn_trial(setting, NAME, draw, Derivative.NONE, name=f"{NAME}:{name}", depth=depth)


def _planted(place: Place, generator: torch.Generator, *, kinds: tuple[str, ...]) -> torch.Tensor:
    shape, harmless = place.values.shape, kinds[0] in HARMLESS
    if harmless:
        where = torch.rand(shape, generator=generator) < _SHARE
        where.reshape(-1)[:1] = True
    else:
        where = sparse(shape, generator)
    info = torch.finfo(place.dtype)
    values = {
        "nan": torch.nan,
        "inf": torch.inf,
        "negative_inf": -torch.inf,
        "max": info.max,
        "min": info.min,
        "zeros": 0.0,
        "subnormals": info.smallest_normal * (1 - info.eps) if info.smallest_normal else 0.0,
    }
    table = torch.tensor([values[kind] for kind in kinds], dtype=torch.float64)
    planted = torch.full(shape, float(table[0]), dtype=torch.float64)
    # In turn, so that each kind has a place where there are places enough.
    planted[where] = table[torch.arange(int(where.sum())) % len(kinds)]
    if harmless:
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
    (rows, columns), count = matrix.shape, _count(shape)
    chosen_rows = torch.randperm(rows, generator=generator)[:count]
    chosen_columns = torch.randperm(columns - 1, generator=generator)[: count - 1]
    matrix[chosen_rows, torch.cat([chosen_columns, torch.tensor([columns - 1])])] = True
    return where


def _count(shape: torch.Size) -> int:
    """How many places are sparse in a tensor of this shape that has elements."""
    columns = shape[-1] if shape else 1
    return max(1, int(min(shape.numel() // max(columns, 1), columns) * _SHARE))
