"""Tensors as files: bytes, strides, offsets and sharing survive; no pickle, so reading one runs no code.

Layout: one safetensors file whose entries are whole storages as bytes, and one JSON metadata entry that says which
named tensor is which view of which storage. Equal tensors in equal order give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal

_METADATA_KEY = "tensorfarm.tensors/1"


def tensor_sha256(tensor: torch.Tensor) -> str:
    """sha256 of dtype, shape and element bits in row-major order; strides and device do not count."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    seen = hashlib.sha256(f"{dense.dtype}{tuple(dense.shape)}".encode())
    seen.update(_bytes_of(dense))
    return seen.hexdigest()


def storage_sha256(tensor: torch.Tensor) -> str:
    """sha256 of the whole storage behind ``tensor``: gaps of a strided view included."""
    return hashlib.sha256(_bytes_of(_storage_bytes(tensor))).hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write named strided tensors (any device) with their strides, offsets and shared storages."""
    storages: dict[int, str] = {}
    content: dict[str, torch.Tensor] = {}
    views: list[dict[str, object]] = []
    for name, tensor in tensors.items():
        pointer = tensor.untyped_storage().data_ptr() if tensor.untyped_storage().nbytes() else -1 - len(storages)
        if pointer not in storages:
            storages[pointer] = f"s{len(storages):06d}"
            content[storages[pointer]] = _storage_bytes(tensor)
        views.append(
            {
                "name": name,
                "storage": storages[pointer],
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "stride": list(tensor.stride()),
                "offset": tensor.storage_offset(),
                "conjugate": tensor.is_conj(),
                "negative": tensor.is_neg(),
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        save_file(content, partial, metadata={_METADATA_KEY: canonical_json(views)})
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what ``write_tensors`` wrote, on the CPU. Refuses a missing, truncated or foreign file."""
    try:
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            storages = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118 (no mapping)
        views: list[dict[str, Any]] = json.loads(metadata[_METADATA_KEY])
        return {view["name"]: _view(storages[view["storage"]], view) for view in views}
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise Refusal(
            f"{path.name} is no readable tensor file: {error}",
            limit="a whole file written by write_tensors",
            next_step="write it again from its source",
        ) from None


def _view(storage: torch.Tensor, view: dict[str, Any]) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, str(view["dtype"]))
    tensor = torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), view["offset"], view["shape"], view["stride"])
    if view["conjugate"]:
        tensor = torch.conj(tensor)
    return torch.ops.aten._neg_view(tensor) if view["negative"] else tensor


def _storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.detach().untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu()


def _bytes_of(dense: torch.Tensor) -> memoryview:
    return dense.reshape(-1).view(torch.uint8).numpy().data if dense.numel() else memoryview(b"")
