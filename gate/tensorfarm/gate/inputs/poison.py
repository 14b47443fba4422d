"""Memory around an input filled with what must not be read: NaN or a huge number in one trial, zeros in its twin.

The elements are the same in both, so outputs and gradients must be the same bit for bit; no oracle is asked. In
``gaps`` the input is a view with holes and margins in every axis; in ``guard`` it keeps the example's strides, so that
a subject of a fixed layout takes it too, and only lies between guards. Integers stay as they are: a wrong index is an
error, no value. Masked positions are no matter of memory: the check finds them by number.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tensorfarm.gate.inputs.layouts import aligned, moved, sharing
from tensorfarm.gate.inputs.refill import backward, copied, floats, wanting
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "poison"
CLEAN = "zero"
HUGE = 1e30

Surround = Callable[[torch.Tensor, float], torch.Tensor]


def pairs(setting: Setting) -> list[tuple[Trial, Trial]]:
    """A poisoned trial and its clean twin: ``poison:nan`` and ``guard:nan``, at the full level ``…:huge`` as well."""
    poisons = ("nan", "huge") if setting.level is Level.FULL else ("nan",)
    found: list[tuple[Trial, Trial]] = []
    for name, surround, layout in ((NAME, in_gaps, "gaps"), ("guard", in_guards, "guard")):
        clean = _trial(setting, f"{name}:{CLEAN}", surround, CLEAN, layout)
        poisoned = [_trial(setting, f"{name}:{poison}", surround, poison, layout) for poison in poisons]
        found += [(item, clean) for item in poisoned if item is not None and clean is not None]
    return found


def trials(setting: Setting) -> list[Trial]:
    """Every trial of ``pairs``, once."""
    return list({trial.name: trial for pair in pairs(setting) for trial in pair}.values())


def in_gaps(value: torch.Tensor, around: float) -> torch.Tensor:
    """A view with a margin at both ends of each axis and a hole after each element of the last."""
    if not value.dim():
        return in_guards(value, around)
    shape = [size + 2 for size in value.shape[:-1]] + [2 * value.shape[-1] + 2]
    view = torch.full(shape, around, dtype=value.dtype, device=value.device)
    for axis, size in enumerate(value.shape[:-1]):
        view = view.narrow(axis, 1, size)
    return view[..., 1 : 2 * value.shape[-1] + 1 : 2].copy_(value)


def in_guards(value: torch.Tensor, around: float) -> torch.Tensor:
    """The example's strides, aligned as a storage of its own would be."""
    return moved(value, aligned(value), around)


def _trial(setting: Setting, name: str, surround: Surround, kind: str, layout: str) -> Trial | None:
    shared = sharing(setting.tensors)
    laid = {
        leaf: surround(value.detach().resolve_conj().resolve_neg(), _filling(kind, value.dtype))
        for leaf, value in floats(setting).items()
        if leaf not in shared and value.numel()
    }
    if not laid:
        return None
    call = Call(wanting(setting, copied(setting) | laid), backward(setting), seed=setting.seed)
    return Trial(name, (call,), Depth.ITSELF, suite=NAME, layout=layout)


def _filling(kind: str, dtype: torch.dtype) -> float:
    return {CLEAN: 0.0, "nan": torch.nan, "huge": min(HUGE, torch.finfo(dtype).max)}[kind]
