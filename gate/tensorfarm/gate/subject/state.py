"""The weights of a subject that is built from source: those of the original, by qualified name.

A factory without a seed builds other weights in every process, and one with a seed does so between instruction sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import read_tensors
from tensorfarm.gate.subject.load import tensors_of_module

_SEED = 0


def seed(subject: Mapping[str, Any]) -> None:
    """Before a factory is called. ``subject``: ``seed``, 0 where there is none."""
    torch.manual_seed(int(subject.get("seed", _SEED)))


def set_state(module: torch.nn.Module, subject: Mapping[str, Any], device: str) -> torch.nn.Module:
    """The module on ``device``, with the tensors of the file ``state`` where the subject has one.

    Refuses a tensor that the module has no place for.
    """
    if device == "cuda":
        module.to(device)
    if not subject.get("state"):
        return module
    tensors = tensors_of_module(module, tied=True)
    places = {**tensors.parameters, **tensors.buffers}
    for name, value in read_tensors(Path(subject["state"])).items():
        place = places.get(name)
        if place is None or place.shape != value.shape or place.dtype != value.dtype:
            raise Refusal(
                f"the subject has no tensor {name} that can hold the original's",
                limit=f"{value.dtype} of shape {list(value.shape)}",
                next_step="build the subject from the same module",
            )
        place.data.copy_(value)
    return module
