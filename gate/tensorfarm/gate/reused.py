"""What a call gave, looked at again after later calls: memory that they write to was never the caller's.

Invariant: an output is looked at only against what it was when it was returned. One that refuses to be looked at, as
those of replayed CUDA graphs do, says so itself and deceives nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from tensorfarm.gate.observation import Observation

KINDS = ("output", "gradient")


def with_overwritten(seen: Sequence[Observation]) -> list[Observation]:
    """The calls of one trial, once all are over: each tells which of its tensors hold other bytes by now, and lets go
    of them."""
    return [replace(one, held={}, report=replace(one.report, overwritten=tuple(_other(one)))) for one in seen]


def held(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of ``tensors`` that are the caller's to keep."""
    return {key: value for key, value in tensors.items() if key.partition(":")[0] in KINDS}


def _other(seen: Observation) -> Iterator[str]:
    for key, value in seen.held.items():
        try:
            if not torch.equal(_bytes(value), _bytes(seen.tensors[key])):
                yield key
        except RuntimeError:
            continue


def _bytes(value: torch.Tensor) -> torch.Tensor:
    return value.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
