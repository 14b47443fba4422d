"""The same program at other sizes: tails, empty reductions, and the axis of size 1 that a kernel forgot.

Invariant: the rows of a size are the first rows of every larger one, so that batch invariance can be read off the same
trials. The example's rows come first; further ones lie between two of the example's, integers repeat.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tensorfarm.gate.inputs.refill import backward, copied, generator, ranged, real_values, wanting
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "ladder"
# What the standard level takes of the contract's sizes: empty, one, two, odd, one more than a vector.
STANDARD_SIZES = frozenset({0, 1, 2, 3, 17})
SPREAD_UP_TO = 17
SECOND_AXIS_SIZES = (1, 2, 3, 7, 17)
# Elements of all moving leaves together: a larger size is left out, and said to be.
MOST_ELEMENTS = 2**24


def trials(setting: Setting) -> list[Trial]:
    """``ladder:SIZE`` of the batch; at the full level ``ladder:axis1:SIZE`` too. The original decides what it takes."""
    found = _of_axis(setting, batch_axis(setting), sizes(setting), NAME)
    if setting.level is Level.FULL:
        second = dict.fromkeys(moving_together(setting, 1), 1)
        affordable = tuple(size for size in SECOND_AXIS_SIZES if _affordable(setting, second, size))
        found += _of_axis(setting, second, affordable, f"{NAME}:axis1")
    return found


def name_of(size: int) -> str:
    """The trial with a batch of ``size``."""
    return f"{NAME}:{size}"


def sizes(setting: Setting) -> tuple[int, ...]:
    """Sizes of the batch that are tried at this level, ascending; empty where no axis is the batch's."""
    if not batch_axis(setting):
        return ()
    return tuple(size for size in _wanted(setting) if _affordable(setting, batch_axis(setting), size))


def left_out(setting: Setting) -> tuple[int, ...]:
    """Sizes of this level whose inputs alone are too large."""
    return tuple(size for size in _wanted(setting) if not _affordable(setting, batch_axis(setting), size))


def _wanted(setting: Setting) -> list[int]:
    batch = sorted(setting.contract.shapes.batch)
    return [size for size in batch if setting.level is Level.FULL or size in STANDARD_SIZES]


def _affordable(setting: Setting, moving: Mapping[str, int], size: int) -> bool:
    rows = [setting.tensors[name].numel() // max(setting.tensors[name].shape[axis], 1) for name, axis in moving.items()]
    return size * sum(rows) <= MOST_ELEMENTS


def batch_axis(setting: Setting) -> dict[str, int]:
    """Which axis of which leaf is the batch's: the first one, of the leaves that ``declared_dynamic`` names, or else of
    every leaf that is as long as the first leaf that has axes."""
    named = [name for name in setting.contract.shapes.declared_dynamic if name in setting.tensors]
    moving = [name for name in named if setting.tensors[name].dim()] or moving_together(setting, 0)
    return dict.fromkeys(moving, 0)


def one_row_less(setting: Setting) -> dict[str, torch.Tensor]:
    """The batch's leaves without the example's last row; none where that leaves one row or less, which compilers take
    for a case of its own. The rows are the example's, so what is known of their rounding holds."""
    moving = batch_axis(setting)
    length = min((setting.tensors[name].shape[axis] for name, axis in moving.items()), default=0)
    if length < 3:
        return {}
    return {name: first_rows(setting.tensors[name].detach(), axis, length - 1) for name, axis in moving.items()}


def moving_together(setting: Setting, axis: int) -> list[str]:
    """Leaves that have ``axis`` and are as long there as the first that has it."""
    lengths = {name: value.shape[axis] for name, value in setting.tensors.items() if value.dim() > axis}
    length = next(iter(lengths.values()), None)
    return [name for name, size in lengths.items() if size == length]


def pool(setting: Setting, moving: Mapping[str, int], size: int) -> dict[str, torch.Tensor]:
    """The moving leaves with ``size`` rows."""
    return {name: extended(setting, name, axis, size) for name, axis in moving.items()}


def extended(setting: Setting, name: str, axis: int, size: int) -> torch.Tensor:
    """One leaf, ``size`` long along ``axis``, in the order of axes in memory that the example has."""
    example = setting.tensors[name]
    shape = (*example.shape[:axis], size, *example.shape[axis + 1 :])
    made = _laid_like(example, shape)
    length = min(size, example.shape[axis])
    made.narrow(axis, 0, length).copy_(example.detach().narrow(axis, 0, length))
    if size > length:
        made.narrow(axis, length, size - length).copy_(_further(setting, name, axis, size - length))
    return made


def _of_axis(setting: Setting, moving: Mapping[str, int], wanted: tuple[int, ...], prefix: str) -> list[Trial]:
    if not moving or not wanted:
        return []
    longest = pool(setting, moving, max(wanted))
    found: list[Trial] = []
    for size in wanted:
        rows = {name: first_rows(value, moving[name], size) for name, value in longest.items()}
        call = Call(wanting(setting, copied(setting) | rows), backward(setting), seed=setting.seed)
        depth = Depth.BUDGET if size <= SPREAD_UP_TO else Depth.EXACT
        found.append(Trial(f"{prefix}:{size}", (call,), depth, suite=NAME))
    return found


def first_rows(value: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """A dense copy of the first ``size`` rows along ``axis``."""
    made = _laid_like(value, (*value.shape[:axis], size, *value.shape[axis + 1 :]))
    return made.copy_(value.narrow(axis, 0, size))


def _further(setting: Setting, name: str, axis: int, count: int) -> torch.Tensor:
    """Rows after the example's, within the box that its rows span: a domain (positive, at most one) is kept."""
    example = setting.tensors[name].detach()
    length = example.shape[axis]
    if not length:
        shape = (*example.shape[:axis], count, *example.shape[axis + 1 :])
        if not example.is_floating_point():
            return torch.zeros(shape, dtype=example.dtype)
        return ranged(setting, torch.randn(shape, generator=generator(setting, NAME, name)), example.dtype)
    if not (example.is_floating_point() or example.is_complex()):
        return example.index_select(axis, torch.arange(count, device=example.device) % length)
    stream, values = generator(setting, NAME, name), real_values(example)
    first = torch.arange(count) % length
    second = (first + torch.randint(1, max(length, 2), (count,), generator=stream)) % length
    rows, others = values.index_select(axis, first), values.index_select(axis, second)
    share = torch.rand(rows.shape, generator=stream, dtype=torch.float64)
    mixed = rows * (1 + share) / 2 if length == 1 else torch.lerp(rows, others, share)
    mixed = ranged(setting, mixed, example.dtype.to_real())
    return torch.view_as_complex(mixed) if example.is_complex() else mixed


def _laid_like(example: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Uninitialised and dense, its axes nested in memory as the example's are."""
    order = sorted(range(len(shape)), key=lambda axis: -example.stride(axis))
    made = torch.empty([shape[axis] for axis in order], dtype=example.dtype, device=example.device)
    return made.permute([order.index(axis) for axis in range(len(shape))])
