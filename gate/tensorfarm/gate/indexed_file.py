"""Tensors in a file whose index is known by its sha256, and holds that of every storage.

A reader who wants a few of them reads and proves those alone. Invariant: whatever is given out has the bytes that the
index tells of; equal tensors in equal order give an equal index. Storages lie at multiples of 64 bytes, those with the
same bytes at the same place: an original that repeats itself is kept once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.regular_file import opened
from tensorfarm.contract.tensors import parts_of, read_bytes, view_of

FORMAT = "tensorfarm.indexed-file/1"
_ALIGNMENT_BYTES = 64
# What torch, JSON and the file system raise on bytes that were not written here.
_FOREIGN = (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, MemoryError)


def write(path: Path, note: Any, tensors: Mapping[str, torch.Tensor]) -> str:
    """Write atomically, with a ``note`` of JSON in the index, and return the index's sha256."""
    views, storages = parts_of(tensors)
    places: dict[str, tuple[int, int, str]] = {}
    begins: dict[str, int] = {}
    end = 0
    for name, storage in storages.items():
        sha256 = _sha256(storage)
        if sha256 not in begins:
            begins[sha256] = end
            end += -(-storage.numel() // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        places[name] = (begins[sha256], storage.numel(), sha256)
    text = canonical_json({"format": FORMAT, "note": note, "views": views, "storages": places}).encode()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            begin = _begin(len(text))
            for name, storage in storages.items():
                stream.seek(begin + places[name][0])
                stream.write(storage.numpy().data)
            stream.truncate(begin + end)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return hashlib.sha256(text).hexdigest()


class IndexedFile:
    """Opened for reading; ``sha256`` and ``note`` are the index's. Refuses a file without one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with opened(path) as stream:
                text = stream.read(int.from_bytes(stream.read(8), "little"))
            index: dict[str, Any] = json.loads(text)
            if index["format"] != FORMAT:
                raise ValueError(index["format"])
            self.note: Any = index["note"]
            self._views: list[dict[str, Any]] = index["views"]
            self._places: dict[str, tuple[int, int, str]] = {
                name: (begin, count, sha256) for name, (begin, count, sha256) in index["storages"].items()
            }
        except _FOREIGN as error:
            raise self._refusal(error) from None
        self.sha256 = hashlib.sha256(text).hexdigest()
        self._begin = _begin(len(text))

    def tensors(self, wants: Callable[[str], bool]) -> dict[str, torch.Tensor]:
        """Those whose name is wanted, in order. Refuses bytes that are not the index's."""
        try:
            views = [view for view in self._views if wants(view["name"])]
            with opened(self.path) as stream:
                places = {view["storage"]: self._places[view["storage"]] for view in views}
                storages = {place: self._storage(stream, *place) for place in dict.fromkeys(places.values())}
            return {view["name"]: view_of(storages[places[view["storage"]]], view) for view in views}
        except _FOREIGN as error:
            raise self._refusal(error) from None

    def _storage(self, stream: BinaryIO, offset: int, count: int, sha256: str) -> torch.Tensor:
        stream.seek(self._begin + offset)
        found = read_bytes(stream, count)
        if _sha256(found) != sha256:
            raise ValueError(f"the storage at {offset} is another one")
        return found

    def _refusal(self, error: Exception) -> Refusal:
        return Refusal(f"{self.path.name} is no readable indexed file: {error}", next_step="write it again")


def _begin(index_bytes: int) -> int:
    """Where the storages begin."""
    return -(-(8 + index_bytes) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _sha256(storage: torch.Tensor) -> str:
    return hashlib.sha256(storage.numpy().data).hexdigest()
