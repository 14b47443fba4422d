"""Copies of tensors that lie in memory as the tensors do: strides, gaps and what shares a storage with what.

Invariant: a copy shares no memory with what it was made of, unless it is asked for where that already is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch


def snapshot(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies with storages, strides and sharing as they are."""
    storages: dict[int, torch.UntypedStorage] = {}
    whole: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    memories: dict[str, torch.Tensor] = {}
    for name, value in tensors.items():
        storage = value.untyped_storage()
        place = storage.data_ptr() or -1 - len(memories)
        if place not in storages:
            storages[place] = storage.clone()
        key = (place, value.dtype)
        if key not in whole:
            whole[key] = torch.empty(0, dtype=value.dtype, device=value.device).set_(storages[place])  # type: ignore[arg-type]
        memories[name] = whole[key]
    found = laid_out(tensors, memories)
    for name, value in tensors.items():
        made = found[name].conj() if value.is_conj() else found[name]
        found[name] = torch.ops.aten._neg_view(made) if value.is_neg() else made
    return found


def laid_out(like: Mapping[str, torch.Tensor], memories: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors in flat memories of the same names, one object for each storage, laid out as those of ``like`` are.

    Different ones in one memory are views of it in autograd's eyes, as a caller's are: a compiler rebuilds inputs that
    share memory from the base that they have in common. What is alone in its memory is nobody's view.
    """
    places = {name: (value.storage_offset(), value.shape, value.stride()) for name, value in like.items()}
    different = Counter(memory for memory, _ in {(id(memories[name]), place) for name, place in places.items()})
    found: dict[str, torch.Tensor] = {}
    for name, (offset, shape, stride) in places.items():
        memory = memories[name]
        if different[id(memory)] > 1:
            with torch.enable_grad():  # a view that is made without may not be written to with it
                found[name] = memory.as_strided(shape, stride, offset)
        else:
            made = torch.empty(0, dtype=memory.dtype, device=memory.device)
            found[name] = made.set_(memory.untyped_storage(), offset, shape, stride)  # type: ignore[arg-type]
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
