"""Copies of tensors that lie in memory as the tensors do: strides, gaps and what shares a storage with what.

Invariant: a copy shares no memory with what it was made of, unless it is asked for where that already is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def snapshot(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies with storages, strides and sharing as they are."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: dict[str, torch.Tensor] = {}
    for key, value in tensors.items():
        storage = value.untyped_storage()
        place = storage.data_ptr()
        if place not in storages or not place:
            storages[place] = storage.clone()
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storages[place], value.storage_offset(), value.shape, value.stride())  # type: ignore[arg-type]
        made = made.conj() if value.is_conj() else made
        found[key] = torch.ops.aten._neg_view(made) if value.is_neg() else made
    return found


def as_one(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves that are the same view of the same memory become one object, as where a caller gives a tensor twice.

    Two objects there are another program to a compiler that asks which inputs are the same one.
    """
    held: dict[tuple[Any, ...], torch.Tensor] = {}
    found = dict(leaves)
    for name, value in found.items():
        if isinstance(value, torch.Tensor) and value.numel():
            view = (value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride())
            bits = (value.dtype, value.is_conj(), value.is_neg(), value.requires_grad)
            found[name] = held.setdefault((*view, *bits), value)
    return found


def on_device(tensors: Mapping[str, torch.Tensor], device: str) -> Mapping[str, torch.Tensor]:
    """The same tensors there, sharing storages as they do here; an instruction-set level is no other place."""
    kind = device.partition("/")[0]
    if kind == "cpu":
        return tensors
    storages: dict[int, torch.UntypedStorage] = {}
    found: dict[str, torch.Tensor] = {}
    for key, value in tensors.items():
        value = value.resolve_conj().resolve_neg()
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[arg-type]
            storages[storage.data_ptr()] = whole.to(kind).untyped_storage()
        made = torch.empty(0, dtype=value.dtype, device=kind)
        there = storages[storage.data_ptr()]
        found[key] = made.set_(there, value.storage_offset(), value.shape, value.stride())  # type: ignore[arg-type]
    return found
