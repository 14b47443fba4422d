"""The example's integers with the other sign, and integers too large for a narrower dtype, one leaf at a time.

Counts and positions are never negative and never large, so an example of them cannot tell a quotient that is rounded
down from one that is cut off, nor 64 bits from 32. Whether a leaf may hold other numbers is the original's to say
(``Trial.tentative``). The dtype's own least number is left out: divided by -1 it ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from tensorfarm.gate.copies import snapshot
from tensorfarm.gate.inputs.refill import generator, wanting, write
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "integers"
# Binary digits of the largest: past 32 bits as it is, or as soon as two are multiplied or a few added.
_DIGITS: Mapping[torch.dtype, int] = {
    torch.int64: 40,
    torch.int32: 30,
    torch.int16: 14,
    torch.int8: 6,
    torch.uint8: 8,
}

_Draw = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def trials(setting: Setting) -> list[Trial]:
    """``integers:KIND:LEAF`` of every leaf of integers, where that gives other ones than the example's."""
    found = [
        _trial(setting, kind, name, draw)
        for name, example in setting.tensors.items()
        if example.dtype in _DIGITS and example.numel()
        for kind, draw in _DRAWS.items()
    ]
    return [trial for trial in found if trial is not None]


def _trial(setting: Setting, kind: str, name: str, draw: _Draw) -> Trial | None:
    full = f"{NAME}:{kind}:{name}"
    least, most = setting.contract.ranges["integer"]
    info, example = torch.iinfo(setting.tensors[name].dtype), setting.tensors[name].detach().cpu()
    drawn = draw(example, generator(setting, full)).clamp(max(int(least), info.min + 1), min(int(most), info.max))
    if torch.equal(drawn, example.long()):
        return None
    made = snapshot(setting.tensors)
    write(made[name], drawn)
    call = Call(wanting(setting, made), seed=setting.seed)
    return Trial(full, (call,), Depth.BUDGET, suite=NAME, tentative=True)


def _turned(example: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Every other one, by chance, counted from the end as places are: -1 of 0, -2 of 1."""
    if not example.dtype.is_signed:
        return example.long()
    turned = torch.rand(example.shape, generator=stream) < 0.5
    turned.view(-1)[0] = True
    return torch.where(turned, -1 - example.long(), example.long())


def _large(example: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Of either sign, spread evenly over the binary digits, one of the largest among them; no zero."""
    digits = _DIGITS[example.dtype] * torch.rand(example.shape, generator=stream, dtype=torch.float64)
    digits.view(-1)[0] = _DIGITS[example.dtype]
    sign = torch.randint(0, 2, example.shape, generator=stream) * 2 - 1
    return torch.exp2(digits).long() * (sign if example.dtype.is_signed else 1)


_DRAWS: Mapping[str, _Draw] = {"turned": _turned, "large": _large}
