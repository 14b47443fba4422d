"""The example's inputs with other values in them.

Invariant: shapes, dtypes, strides, offsets, sharing and ``requires_grad`` are the example's, no storage is. Integers
and booleans keep their values: they may be indices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from tensorfarm.gate.copies import snapshot
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Derivative


@dataclass(frozen=True)
class Place:
    """A floating leaf to draw values for. ``values`` are the example's in float64, complex ones as pairs in a last
    axis; ``dtype`` is the real dtype that the drawn ones are rounded to."""

    name: str
    values: torch.Tensor
    dtype: torch.dtype


Draw = Callable[[Place, torch.Generator], torch.Tensor]


def copied(setting: Setting) -> dict[str, torch.Tensor]:
    """The example's inputs, whole storages copied."""
    return wanting(setting, snapshot(setting.tensors))


def refilled(setting: Setting, suite: str, draw: Draw) -> dict[str, torch.Tensor]:
    """``draw`` gives float64 values shaped as ``Place.values``; finite ones are brought into the contract's range."""
    made = snapshot(setting.tensors)
    for name, example in floats(setting).items():
        place = Place(name, real_values(example), example.dtype.to_real())
        values = ranged(setting, draw(place, generator(setting, suite, name)), place.dtype)
        write(made[name], torch.view_as_complex(values.contiguous()) if example.is_complex() else values)
    return wanting(setting, made)


def floats(setting: Setting) -> dict[str, torch.Tensor]:
    """The example's floating and complex leaves."""
    return {name: value for name, value in setting.tensors.items() if value.is_floating_point() or value.is_complex()}


def backward(setting: Setting) -> Derivative:
    """What is asked for beside the outputs where gradients are judged."""
    return Derivative.VJP if setting.mode == "training" and setting.facts.trainable else Derivative.NONE


def generator(setting: Setting, *words: str) -> torch.Generator:
    """A stream of its own for each purpose and leaf: one that is added changes no other."""
    digest = hashlib.sha256("|".join((str(setting.seed), *words)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def wanting(setting: Setting, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """``requires_grad`` as the setting says, wherever the dtype can have a gradient."""
    wanted = {leaf.name for leaf in setting.leaves if leaf.requires_grad}
    return {
        name: value.requires_grad_(name in wanted and (value.is_floating_point() or value.is_complex()))
        for name, value in inputs.items()
    }


def real_values(example: torch.Tensor) -> torch.Tensor:
    """Float64, on the CPU, complex numbers as pairs."""
    value = example.detach().resolve_conj().resolve_neg().cpu()
    return (torch.view_as_real(value) if value.is_complex() else value).double()


def ranged(setting: Setting, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to ``dtype``, and finite values within what the contract declares; float64 still."""
    least, most = setting.contract.ranges["floating"]
    rounded = values.to(dtype).double()
    return torch.where(rounded.isfinite(), rounded.clamp(least, most), rounded)


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Fill a tensor whose elements may lie on one another: the first of them in row-major order stays."""
    raw = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    raw.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())  # type: ignore[arg-type]
    if not overlaps(raw):
        raw.copy_(values)
        return
    span = 1 + sum((size - 1) * step for size, step in zip(raw.shape, raw.stride(), strict=True))
    positions = torch.arange(span).as_strided(raw.shape, raw.stride()).reshape(-1)
    found, group = positions.unique(return_inverse=True)
    first = torch.full(found.shape, positions.numel()).scatter_reduce_(
        0, group, torch.arange(positions.numel()), reduce="amin"
    )
    flat = raw.as_strided((span,), (1,))
    flat[found.to(raw.device)] = values.reshape(-1)[first].to(raw)


def overlaps(tensor: torch.Tensor) -> bool:
    """True where two elements may share memory; every tensor whose axes are nested is free of it."""
    if not tensor.numel():
        return False
    reach = 0
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False
