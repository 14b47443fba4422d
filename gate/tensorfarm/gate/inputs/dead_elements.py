"""The example with some elements poisoned that a program may have no use for: the last rows, and what a mask hides.

Which of them it uses is not known here: whoever compares asks the original. Invariant: what is not poisoned holds the
example's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from tensorfarm.gate.inputs import poison
from tensorfarm.gate.inputs.ladder import batch_axis, moving_together
from tensorfarm.gate.inputs.refill import backward, copied, floats
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial

NAME = f"{poison.NAME}:dead"


def trial(setting: Setting) -> Trial | None:
    """One call for each way to choose them; None where nothing can be chosen."""
    calls = tuple(_call(setting, inputs) for inputs in _chosen(setting))
    return Trial(NAME, calls, Depth.EXACT, suite=poison.NAME) if calls else None


def _chosen(setting: Setting) -> Iterator[dict[str, torch.Tensor]]:
    """Inputs in which some elements hold NaN, or at the full level a huge number: the last of the first axis, the last
    of the second, and where a leaf of zeros and ones that fits is zero, or one."""
    fillings = (torch.nan, poison.HUGE) if setting.level is Level.FULL else (torch.nan,)
    floating = floats(setting)
    chosen: list[dict[str, torch.Tensor]] = []
    for axis, names in ((0, list(batch_axis(setting))), (1, moving_together(setting, 1))):
        where = {name: _last(floating[name], axis) for name in names if name in floating}
        chosen.append({name: mask for name, mask in where.items() if bool(mask.any()) and not bool(mask.all())})
    for leaf, mask in _masks(setting):
        fitting = [name for name, value in floating.items() if value.shape[: mask.dim()] == mask.shape and name != leaf]
        for hidden in (~mask, mask):
            chosen.append({name: _spread(hidden, floating[name]) for name in fitting})
    for where in chosen:
        for filling in fillings if where else ():
            yield _filled(setting, where, filling)


def _call(setting: Setting, inputs: Mapping[str, torch.Tensor]) -> Call:
    """Differentiable where the example is: a compiler has other code for what never is."""
    plain = Derivative.NONE if backward(setting) is Derivative.NONE else Derivative.GRAPH
    return Call(inputs, plain, seed=setting.seed)


def _filled(setting: Setting, where: Mapping[str, torch.Tensor], filling: float) -> dict[str, torch.Tensor]:
    inputs = copied(setting)
    for name, mask in where.items():
        value = inputs[name].detach()
        bounded = filling if filling != filling else min(filling, torch.finfo(value.dtype).max)
        inputs[name] = torch.where(mask, torch.full_like(value, bounded), value).requires_grad_(
            inputs[name].requires_grad
        )
    return inputs


def _last(value: torch.Tensor, axis: int) -> torch.Tensor:
    mask = torch.zeros(value.shape, dtype=torch.bool)
    if value.dim() > axis and value.shape[axis] > 1:
        mask.select(axis, value.shape[axis] - 1).fill_(True)
    return mask


def _masks(setting: Setting) -> Iterator[tuple[str, torch.Tensor]]:
    """Leaves that hold zeros and ones, and both."""
    for name, value in setting.tensors.items():
        if value.numel() > 1 and not value.is_complex() and bool(((value == 0) | (value == 1)).all()):
            mask = value.detach() == 1
            if bool(mask.any()) and not bool(mask.all()):
                yield name, mask


def _spread(mask: torch.Tensor, over: torch.Tensor) -> torch.Tensor:
    return mask.reshape(*mask.shape, *[1] * (over.dim() - mask.dim())).expand(over.shape)
