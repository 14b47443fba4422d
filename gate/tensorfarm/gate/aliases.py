"""Which tensors share memory: what a caller would see of a write to one in another.

Invariant: a pair is told by storage alone, so views of one storage that do not overlap are a pair too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import torch


def aliases(tensors: Mapping[str, torch.Tensor]) -> tuple[tuple[str, str], ...]:
    """Sorted pairs of keys whose tensors share a storage; a storage without bytes is shared by nobody."""
    places: dict[int, list[str]] = {}
    for key in sorted(tensors):
        place = tensors[key].untyped_storage().data_ptr()
        if place:
            places.setdefault(place, []).append(key)
    return tuple(sorted(pair for keys in places.values() for pair in combinations(keys, 2)))
