"""Outputs that are no tensors, numbers or containers of them: what a report can say of one.

Invariant: an object that holds tensors is never said in the words of one that holds none, for whatever is in those
tensors nobody has compared.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

_HOLDING = " that holds tensors>"
# A cache of keys and values holds layers, which hold the tensors.
_DEPTH = 3
_TORCHS = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)
_NAMED_BY_TEXT = (*_TORCHS, enum.Enum, slice, range, bytes)


def words_of(item: Any) -> str:
    """Of values that are named by their text, the text; of anything else its class, and whether it holds tensors."""
    if isinstance(item, _NAMED_BY_TEXT):
        return repr(item)
    kind = f"<{type(item).__module__}.{type(item).__qualname__}"
    return kind + (_HOLDING if _holds_tensors(item, _DEPTH) else ">")


def holds_tensors(words: Any) -> bool:
    """Whether these are the words of an object that does."""
    return isinstance(words, str) and words.startswith("<") and words.endswith(_HOLDING)


def _holds_tensors(item: Any, depth: int) -> bool:
    leaves = [leaf for part in _parts(item) for leaf in pytree.tree_leaves(part)]
    if any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return True
    return depth > 1 and any(_holds_tensors(leaf, depth - 1) for leaf in leaves)


def _parts(item: Any) -> Iterator[Any]:
    """Attributes of an instance. Of a class, a function or a module of Python's none: they are not a call's answer."""
    if isinstance(item, type) or callable(item):
        return
    yield from getattr(item, "__dict__", {}).values()
    if dataclasses.is_dataclass(item):
        yield from (getattr(item, field.name, None) for field in dataclasses.fields(item))
