"""Two inputs that become one between calls: a subject that was built for separate ones must look again.

Each trial calls apart, together, apart: a missing guard shows in the second call or in the third.
"""

from __future__ import annotations

import torch

from tensorfarm.gate.inputs.refill import backward, copied, wanting
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "alias"


def trials(setting: Setting) -> list[Trial]:
    """``alias:same:LEFT:RIGHT`` and ``alias:overlap:LEFT:RIGHT`` of every pair."""
    return [
        _trial(setting, f"{NAME}:{kind}:{left}:{right}", together)
        for left, right in pairs(setting)
        for kind, together in (("same", same(setting, left, right)), ("overlap", overlapping(setting, left, right)))
    ]


def pairs(setting: Setting) -> list[tuple[str, str]]:
    """Neighbours among leaves of one dtype and shape that are apart in the example, floating ones first."""
    kinds: dict[tuple[object, ...], list[str]] = {}
    for name, value in setting.tensors.items():
        if value.numel():
            kinds.setdefault((not value.is_floating_point(), value.dtype, value.shape), []).append(name)
    pointers = {name: value.untyped_storage().data_ptr() for name, value in setting.tensors.items()}
    return [
        (left, right)
        for kind in sorted(kinds, key=lambda kind: bool(kind[0]))
        for left, right in zip(kinds[kind], kinds[kind][1:], strict=False)
        if pointers[left] != pointers[right]
    ]


def same(setting: Setting, left: str, right: str) -> dict[str, torch.Tensor]:
    """Both are one tensor, the left one."""
    inputs = copied(setting)
    return {**inputs, right: inputs[left]}


def overlapping(setting: Setting, left: str, right: str) -> dict[str, torch.Tensor]:
    """Views of one storage, the right one an element further; values are the left one's, repeated at its end."""
    value = setting.tensors[left].detach().resolve_conj().resolve_neg()
    flat = value.reshape(-1)
    storage = torch.cat([flat, flat[-1:]])
    views = {left: storage[:-1].view(value.shape), right: storage[1:].view(value.shape)}
    return wanting(setting, copied(setting) | views)


def _trial(setting: Setting, name: str, together: dict[str, torch.Tensor]) -> Trial:
    steps = (copied(setting), together, copied(setting))
    calls = tuple(Call(inputs, backward(setting), seed=setting.seed) for inputs in steps)
    return Trial(name, calls, Depth.BUDGET, suite=NAME, layout=name.split(":")[1])
