"""A call by leaves: they are packed into arguments, and what the call left in the containers there is told.

A list that is appended to, a key that is popped or assigned is seen by the caller as a write to a tensor is. Invariant:
containers are made anew for each call, so what is found in them is that call's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.structure import structure_text
from tensorfarm.gate.calling import Returned

GONE = "<gone>"


def call_packed(target: Callable[..., Any], leaves: Mapping[str, Any], in_spec: pytree.TreeSpec) -> Returned:
    """What ``target`` returns for arguments of these leaves, flat."""
    args, kwargs = pytree.tree_unflatten(list(leaves.values()), in_spec)
    before = _contents(args, kwargs)
    found, spec = pytree.tree_flatten(target(*args, **kwargs))
    return Returned(found, structure_text(spec), _changes(before, _contents(args, kwargs)))


def name_of(path: str) -> str:
    """``args[0]``, ``kwargs['mask']`` of a place in ``(args, kwargs)``."""
    return f"args{path.removeprefix('[0]')}" if path.startswith("[0]") else f"kwargs{path.removeprefix('[1]')}"


def _contents(args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        found, _ = pytree.tree_flatten_with_path((args, kwargs))
    except ValueError:  # a class that was registered without names for its parts: they are counted
        return {str(number): value for number, value in enumerate(pytree.tree_leaves((args, kwargs)))}
    return {name_of(pytree.keystr(path)): value for path, value in found}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in after.items() if name not in before or _is_other(before[name], value)}
    return changed | dict.fromkeys(before.keys() - after.keys(), GONE)


def _is_other(before: Any, after: Any) -> bool:
    if before is after or isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor):
        return before is not after
    return type(before) is not type(after) or repr(before) != repr(after)
