"""Memory around an input filled with what must not be read: NaN or a huge number in one trial, zeros in its twin.

The elements are the same in both, so outputs and gradients must be the same bit for bit; no oracle is asked. In
``gaps`` the input is a view with holes and margins in every axis; in ``guard`` it keeps the example's strides, so that
a subject of a fixed layout takes it too, and only lies between guards. Integers stay as they are: a wrong index is an
error, no value. Elements that a program may not use are no matter of memory: ``dead_elements`` poisons them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tensorfarm.gate.inputs.layouts import aligned, in_gaps, moved, sharing
from tensorfarm.gate.inputs.refill import backward, copied, floats, wanting
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "poison"
CLEAN = "zero"
HUGE = 1e30

Surround = Callable[[torch.Tensor, float], torch.Tensor]


def pairs(setting: Setting) -> list[tuple[Trial, Trial]]:
    """A poisoned trial and its clean twin: ``poison:nan``, ``guard:nan``, ``poison:huge`` and ``guard:huge``."""
    if setting.level < Level.FULL:
        return []
    found: list[tuple[Trial, Trial]] = []
    for name, surround, layout in ((NAME, in_holes, "gaps"), ("guard", in_guards, "guard")):
        clean = _trial(setting, f"{name}:{CLEAN}", surround, CLEAN, layout)
        poisoned = [_trial(setting, f"{name}:{poison}", surround, poison, layout) for poison in ("nan", "huge")]
        found += [(item, clean) for item in poisoned if item is not None and clean is not None]
    return found


def trials(setting: Setting) -> list[Trial]:
    """Every trial of ``pairs``, once."""
    return list({trial.name: trial for pair in pairs(setting) for trial in pair}.values())


def in_holes(value: torch.Tensor, around: float) -> torch.Tensor:
    """In gaps, or between guards where there is no axis for them."""
    return in_gaps(value, around) if value.dim() else in_guards(value, around)


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
