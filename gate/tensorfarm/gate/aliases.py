"""Which tensors share memory: what a caller would see of a write to one in another.

Invariant: a pair is told by storage alone, so views of one storage that do not overlap are a pair too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import torch


def aliases(
    tensors: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor] | None = None
) -> tuple[tuple[str, str], ...]:
    """Sorted pairs of keys whose tensors share a storage; a storage without bytes is shared by nobody. Of ``state``,
    parameters and buffers, there are pairs with ``tensors`` alone: who is tied to whom in a module is no call's doing.
    """
    places: dict[int, list[str]] = {}
    every = {**tensors, **(state or {})}
    for key in sorted(every):
        place = every[key].untyped_storage().data_ptr()
        if place:
            places.setdefault(place, []).append(key)
    pairs = (pair for keys in places.values() for pair in combinations(keys, 2))
    return tuple(sorted(pair for pair in pairs if pair[0] in tensors or pair[1] in tensors))
