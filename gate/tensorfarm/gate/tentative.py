"""Whether a program's integers are numbers to it, so that others may be put there, or places, counts and lengths.

The original says so by raising; but not every kernel looks, a length of 2**40 fills the memory, and a loop that counts
down to zero never ends from below. Invariant: under the mode no number is taken out of a tensor, nothing is made as
large as an integer says, and no operator that trusts its places is called: whatever would, raises.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.rounding import name_of

# Python decides by the first, the others make as much as a value says.
_BY_VALUE = frozenset({"_local_scalar_dense", "bincount", "repeat_interleave"})
# Of what takes integers beside floating numbers and is not pointwise: who looks at the places before, or takes none.
_LOOKING = ("index", "scatter", "nll_loss", "gather", "take", "embedding", "cat", "copy")
_TRUSTING = "embedding_bag"


class OutOfDomain(RuntimeError):
    """Integers decide more in this program than values."""


class Tentative(TorchDispatchMode):
    """Raises ``OutOfDomain`` where another integer could do more than give another value."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under the mode."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if name_of(func) in _BY_VALUE or (_may_trust(func) and _mixes(args, kwargs)):
            raise OutOfDomain(f"{func} decides by integers")
        return func(*args, **(kwargs or {}))


@cache
def _may_trust(func: Any) -> bool:
    name = name_of(func).lstrip("_")
    looks = func.namespace == "aten" and name.startswith(_LOOKING) and not name.startswith(_TRUSTING)
    return not looks and torch.Tag.pointwise not in func.tags


def _mixes(args: Any, kwargs: Any) -> bool:
    """Whether tensors of both kinds are given."""
    tensors = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
    floating = [item.is_floating_point() or item.is_complex() for item in tensors if item.dtype is not torch.bool]
    return len(set(floating)) > 1
