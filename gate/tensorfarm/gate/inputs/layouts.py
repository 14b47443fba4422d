"""The example's values in other memory layouts: a kernel that was built for the example's strides reads others wrongly.

One trial puts every leaf that can into a layout, the full level also one leaf at a time. Leaves that share a storage
stay as they are. What lies between the elements of a view and around them is no value of the input: NaN where it can
be, so that whoever reads it cannot hide it.

Values are the example's, so its oracle and spread hold; ``Depth.EAGER`` gives the original's strides and errors.
Only ``expanded_stride0`` has values of its own, equal along the first axis that is longer than one. Gradients are asked
for at the full level. Below it the layouts that keep the example's strides, which no original refuses, ask for those by
other cotangents: a call that is made for its memory is then one for its cotangent too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from tensorfarm.gate.inputs.refill import backward, copied, overlaps, wanting
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Cotangent, Depth, Derivative, Trial

PREFIX = "layout:"
EXPANDED, GAPS, OFFSET = "expanded_stride0", "sliced_step", "nonzero_offset"
# What a wrong read finds beside integers, which have no NaN; a boolean is True there.
BETWEEN = 7.0
COTANGENTS: Mapping[str, Cotangent] = {
    OFFSET: Cotangent.ONES_EXPANDED,
    "misaligned_offset_1_elem": Cotangent.STRIDED,
}
_ALIGNMENT_BYTES = 64


def trials(setting: Setting) -> list[Trial]:
    """``layout:LAYOUT``, and ``layout:LAYOUT:LEAF`` at the full level, for what changes the strides of something."""
    found: list[Trial] = []
    for layout in setting.contract.layouts:
        laid = laid_out(setting, layout)
        if not laid:
            continue
        found.append(_trial(setting, name_of(layout), layout, laid))
        if setting.level is Level.FULL and len(laid) > 1:
            found += [_trial(setting, f"{name_of(layout)}:{name}", layout, {name: laid[name]}) for name in laid]
    return found


def name_of(layout: str) -> str:
    """The trial in which every leaf that can is in this layout."""
    return f"{PREFIX}{layout}"


def trial(setting: Setting, layout: str) -> Trial | None:
    """The trial of one layout, declared or not; None where it changes the strides of nothing."""
    laid = laid_out(setting, layout)
    return _trial(setting, name_of(layout), layout, laid) if laid else None


def laid_out(setting: Setting, layout: str) -> dict[str, torch.Tensor]:
    """Every leaf that has this layout and does not have it already, in it."""
    found: dict[str, torch.Tensor] = {}
    shared = sharing(setting.tensors)
    for name, example in setting.tensors.items():
        if name not in shared and example.numel():
            made = LAYOUTS[layout](example.detach().resolve_conj().resolve_neg())
            if made is not None and _place(made) != _place(example):
                found[name] = made
    return found


def sharing(tensors: Mapping[str, torch.Tensor]) -> frozenset[str]:
    """Names of tensors whose storage is another's too."""
    owners: dict[int, list[str]] = {}
    for name, value in tensors.items():
        owners.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    return frozenset(name for names in owners.values() if len(names) > 1 for name in names)


def _trial(setting: Setting, name: str, layout: str, laid: Mapping[str, torch.Tensor]) -> Trial:
    inputs = wanting(setting, copied(setting) | dict(laid))
    cotangent = None if setting.level is Level.FULL else COTANGENTS.get(layout)
    plain = Derivative.NONE if cotangent is None and setting.level < Level.FULL else backward(setting)
    call = Call(inputs, plain, cotangent or Cotangent.NORMAL, seed=setting.seed)
    if layout == EXPANDED:
        return Trial(name, (call,), Depth.BUDGET, suite=EXPANDED, layout=layout)
    return Trial(name, (call,), Depth.EAGER, layout=layout)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    steps = tuple(step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    return steps, tensor.storage_offset()


def _contiguous(value: torch.Tensor) -> torch.Tensor:
    return value.clone(memory_format=torch.contiguous_format)


def _channels_last(value: torch.Tensor) -> torch.Tensor | None:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return value.clone(memory_format=formats[value.dim()]) if value.dim() in formats else None


def _transposed(value: torch.Tensor) -> torch.Tensor | None:
    return _contiguous(value.mT).mT if value.dim() > 1 else None


def _sliced_step(value: torch.Tensor) -> torch.Tensor | None:
    return in_gaps(value, between(value.dtype)) if value.dim() and value.shape[-1] > 1 else None


def between(dtype: torch.dtype) -> float:
    """What lies beside the elements of an input of this dtype."""
    return math.nan if dtype.is_floating_point or dtype.is_complex else BETWEEN


def in_gaps(value: torch.Tensor, around: float) -> torch.Tensor:
    """A view with a margin at both ends of each axis, of which there is one, and a hole after each element of the
    last."""
    shape = [size + 2 for size in value.shape[:-1]] + [2 * value.shape[-1] + 2]
    view = torch.full(shape, around, dtype=value.dtype, device=value.device)
    for axis, size in enumerate(value.shape[:-1]):
        view = view.narrow(axis, 1, size)
    return view[..., 1 : 2 * value.shape[-1] + 1 : 2].copy_(value)


def _expanded(value: torch.Tensor) -> torch.Tensor | None:
    axis = next((axis for axis, size in enumerate(value.shape) if size > 1), None)
    return None if axis is None else _contiguous(value.narrow(axis, 0, 1)).expand(value.shape)


def moved(value: torch.Tensor, offset: int, around: float) -> torch.Tensor:
    """The same strides ``offset`` elements into a storage that has as many after it; dense if elements overlapped."""
    steps = _contiguous(value).stride() if overlaps(value) else value.stride()
    span = 1 + sum((size - 1) * step for size, step in zip(value.shape, steps, strict=True))
    storage = torch.full((span + 2 * offset,), around, dtype=value.dtype, device=value.device)
    return storage.as_strided(value.shape, steps, offset).copy_(value)


def aligned(value: torch.Tensor) -> int:
    """Elements in a step that keeps vector loads aligned."""
    return max(_ALIGNMENT_BYTES // value.element_size(), 1)


LAYOUTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "contiguous": _contiguous,
    "channels_last": _channels_last,
    "transposed": _transposed,
    GAPS: _sliced_step,
    EXPANDED: _expanded,
    OFFSET: lambda value: moved(value, aligned(value), between(value.dtype)),
    "misaligned_offset_1_elem": lambda value: moved(value, 1, between(value.dtype)),
}
