"""Tensors as files: bytes, strides, offsets and sharing survive; no pickle, so reading one runs no code.

Layout: one safetensors file whose entries are whole storages as bytes, and one JSON metadata entry that says which
named tensor is which view of which storage. Equal tensors in equal order give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import torch

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.regular_file import opened

_METADATA_KEY = "tensorfarm.tensors/1"
_HEADER_ALIGNMENT = 8


def tensor_sha256(tensor: torch.Tensor) -> str:
    """sha256 of dtype, shape and element bits in row-major order; strides and device do not count."""
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    seen = hashlib.sha256(f"{dense.dtype}{tuple(dense.shape)}".encode())
    seen.update(_bytes_of(dense))
    return seen.hexdigest()


def storage_sha256(tensor: torch.Tensor) -> str:
    """sha256 of the whole storage behind ``tensor``: gaps of a strided view included."""
    return hashlib.sha256(_bytes_of(_storage_bytes(tensor))).hexdigest()


def parts_of(tensors: Mapping[str, torch.Tensor]) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Strided tensors (any device) as views, in order, of storages by name, each once and as bytes on the CPU."""
    names: dict[int, str] = {}
    storages: dict[str, torch.Tensor] = {}
    views: list[dict[str, Any]] = []
    for name, tensor in tensors.items():
        pointer = tensor.untyped_storage().data_ptr() if tensor.untyped_storage().nbytes() else -1 - len(names)
        if pointer not in names:
            names[pointer] = f"s{len(names):06d}"
            storages[names[pointer]] = _storage_bytes(tensor)
        views.append(
            {
                "name": name,
                "storage": names[pointer],
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "stride": list(tensor.stride()),
                "offset": tensor.storage_offset(),
                "conjugate": tensor.is_conj(),
                "negative": tensor.is_neg(),
            }
        )
    return views, storages


def view_of(storage: torch.Tensor, view: Mapping[str, Any]) -> torch.Tensor:
    """The tensor that a view of ``parts_of`` tells. Raises what torch does where the storage cannot hold it."""
    dtype: torch.dtype = getattr(torch, str(view["dtype"]))
    tensor = torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), view["offset"], view["shape"], view["stride"])
    if view["conjugate"]:
        tensor = torch.conj(tensor)
    return torch.ops.aten._neg_view(tensor) if view["negative"] else tensor


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write named strided tensors (any device) with their strides, offsets and shared storages."""
    views, storages = parts_of(tensors)
    header = _header(storages, canonical_json(views))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb", buffering=0) as stream:
            for part in (len(header).to_bytes(8, "little") + header, *map(_bytes_of, storages.values())):
                _write_whole(stream, part)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def _header(storages: Mapping[str, torch.Tensor], metadata: str) -> bytes:
    """What safetensors writes before the bytes. Its own writer goes by way of a numpy array for each storage, which
    takes longer than the bytes."""
    entries: dict[str, Any] = {"__metadata__": {_METADATA_KEY: metadata}}
    end = 0
    for name, storage in storages.items():
        begin, end = end, end + storage.numel()
        entries[name] = {"dtype": "U8", "shape": [storage.numel()], "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % _HEADER_ALIGNMENT)


def _write_whole(stream: FileIO, part: bytes | memoryview) -> None:
    left = memoryview(part)
    while left:
        left = left[stream.write(left) :]


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read what ``write_tensors`` wrote, on the CPU. Refuses a missing, truncated or foreign file."""
    try:
        stream = opened(path)
    except OSError as error:
        raise _unreadable(path.name, error) from None
    with stream:
        return tensors_of(stream, path.name)


def tensors_of(stream: BinaryIO, name: str) -> dict[str, torch.Tensor]:
    """The same from an open file or a buffer called ``name``; every storage is read to where it stays."""
    try:
        header: dict[str, Any] = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        views: list[dict[str, Any]] = json.loads(header.pop("__metadata__")[_METADATA_KEY])
        storages: dict[str, torch.Tensor] = {}
        for key, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            first, last = entry["data_offsets"]
            storages[key] = read_bytes(stream, last - first)
        return {view["name"]: view_of(storages[view["storage"]], view) for view in views}
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        raise _unreadable(name, error) from None


def read_bytes(stream: BinaryIO, count: int) -> torch.Tensor:
    """The next ``count`` bytes, on a storage of their own. Raises ValueError where there are fewer."""
    made = torch.empty(count, dtype=torch.uint8)
    if count and stream.readinto(made.numpy().data) != count:  # type: ignore[attr-defined]
        raise ValueError("it ends too early")
    return made


def _unreadable(name: str, error: Exception) -> Refusal:
    return Refusal(
        f"{name} is no readable tensor file: {error}",
        limit="a whole file written by write_tensors",
        next_step="write it again from its source",
    )


def _storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.detach().untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu()


def _bytes_of(dense: torch.Tensor) -> memoryview:
    return dense.reshape(-1).view(torch.uint8).numpy().data if dense.numel() else memoryview(b"")
