"""A module of the caller's, put back as it was after others have called and changed it.

Invariant: after ``put_back`` every part holds the objects that it held, so do the lists, dictionaries and sets that it
holds them in (a recurrent layer keeps its weights in a list beside their names), and every tensor has the values that
it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import Any, cast

import torch

_Container = list[Any] | dict[Any, Any] | set[Any]


class KeptModules:
    """Several modules; those that share parts or tensors are kept once."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        parts = {id(part): part for module in modules for part in module.modules()}
        self._held = [(part, dict(vars(part))) for part in parts.values()]
        # A copy keeps what it names alive, so nothing later can be taken for it.
        self._contents = [(place, _plain(place)) for place in _containers(held for _, held in self._held)]
        tensors = {id(value): value for module in modules for value in named_tensors(module).values()}
        self._values = [(value, value.detach().clone()) for value in tensors.values()]

    def put_back(self) -> None:
        """Which objects each part holds, and the values of every tensor."""
        for part, held in self._held:
            vars(part).clear()
            vars(part).update(held)
        for place, content in self._contents:
            _refill(place, content)
        with torch.no_grad():
            for place, value in self._values:
                if place.shape != value.shape or place.dtype != value.dtype:
                    place.data = value.clone()
                elif not torch.equal(place, value):
                    place.copy_(value)


def named_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every tensor of the module that has a qualified name, tied ones under each of theirs."""
    found: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    found |= dict(module.named_buffers(remove_duplicate=False))
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                found[f"{prefix}.{name}" if prefix else name] = value
    return found


def _containers(attributes: Iterable[dict[str, Any]]) -> Iterator[_Container]:
    """Every list, dictionary and set among the values of ``attributes`` and inside one another, once."""
    seen = set[int]()
    waiting: list[Any] = [value for held in attributes for value in held.values()]
    while waiting:
        place = waiting.pop()
        if not isinstance(place, (list, dict, set, tuple)) or id(place) in seen:
            continue
        seen.add(id(place))
        waiting += cast("dict[Any, Any]", place).values() if isinstance(place, dict) else cast("list[Any]", place)
        if not isinstance(place, tuple):
            yield cast("_Container", place)


def _plain(place: _Container) -> _Container:
    """The same objects in a container of Python's own: a class of the user's may copy itself in any way."""
    return list(place) if isinstance(place, list) else dict(place) if isinstance(place, dict) else set(place)


def _refill(place: _Container, content: _Container) -> None:
    """In place, for others hold it too; one that holds the same objects is not touched."""
    if _same_objects(place, content):
        return
    place.clear()
    if isinstance(place, list):
        place.extend(content)
    else:
        place.update(content)  # type: ignore[arg-type]


def _same_objects(one: _Container, other: _Container) -> bool:
    """In the same order. Most of a module's dictionaries are of hooks, and empty."""
    if len(one) != len(other) or not all(map(is_, one, other)):
        return False
    return not isinstance(one, dict) or not isinstance(other, dict) or all(map(is_, one.values(), other.values()))
