"""A module of the caller's, put back as it was after others have called and changed it.

Invariant: after ``put_back`` every part holds the objects that it held, and every tensor the values that it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tensorfarm.gate.reference import named_tensors

# The dictionaries of a module that are not looked up by attribute name.
_REGISTRIES = ("_parameters", "_buffers", "_modules")


class KeptModules:
    """Several modules; those that share parts or tensors are kept once."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        parts = {id(part): part for module in modules for part in module.modules()}
        self._held = [(part, dict(vars(part)), self._registered(part)) for part in parts.values()]
        tensors = {id(value): value for module in modules for value in named_tensors(module).values()}
        self._values = [(value, value.detach().clone()) for value in tensors.values()]

    def put_back(self, *, attributes: bool) -> None:
        """Values always; with ``attributes`` also which objects each part holds, for a module that was changed."""
        if attributes:
            for part, held, registered in self._held:
                vars(part).clear()
                vars(part).update(held)
                for name, items in registered.items():
                    registry = vars(part)[name]
                    registry.clear()
                    registry.update(items)
        with torch.no_grad():
            for place, value in self._values:
                if place.shape != value.shape or place.dtype != value.dtype:
                    place.data = value.clone()
                elif not torch.equal(place, value):
                    place.copy_(value)

    @staticmethod
    def _registered(part: torch.nn.Module) -> dict[str, dict[str, Any]]:
        return {name: dict(vars(part)[name]) for name in _REGISTRIES}
