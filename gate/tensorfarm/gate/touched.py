"""What a call does to the tensors it is given beyond their values: whether they want a gradient, and which they hold.

Of parameters, which no call's answer shows, also that they were written to. Invariant: told from counters and flags
alone, so that looking costs nothing however large a module is; a write that goes round autograd shows in later calls.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

Marks = Mapping[str, Mapping[str, object]]


def marks(parameters: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]) -> Marks:
    """By key, what can be seen of a tensor; equal before and after a call that leaves it alone."""
    found: dict[str, Mapping[str, object]] = {key: _gradients(value) for key, value in inputs.items()}
    for name, value in parameters.items():
        written = None if value.is_inference() else value._version
        found[f"parameter:{name}"] = {"values": written, **_gradients(value)}
    return found


def touched(before: Marks, after: Marks) -> dict[str, str]:
    """The first mark that is another one, by key."""
    different = {
        key: next((mark for mark, value in seen.items() if after.get(key, seen)[mark] != value), "")
        for key, seen in before.items()
    }
    return {key: mark for key, mark in different.items() if mark}


def _gradients(value: torch.Tensor) -> dict[str, object]:
    held = value.grad if value.is_leaf else None
    return {"requires_grad": value.requires_grad, "grad": None if held is None else (id(held), held._version)}
