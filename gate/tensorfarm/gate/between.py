"""Changes that are made to a module between two calls: what a guard must notice, or a compiled program goes stale.

The original, the oracle and the subject are changed alike, in whatever dtype they hold. Invariant: a change hangs on
names, shapes and positions alone and rounds nothing, so that all of them hold the same values after it.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from tensorfarm.contract.capture import load_function
from tensorfarm.contract.refusal import Refusal

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_LARGEST_INTEGER = 3
_TINY = 2.0**-6
_EPSILON, _EPSILON_BITS = "eps", 12


def apply(module: nn.Module, name: str, step: int) -> None:
    """Make the change called ``name``, one of ``CHANGES`` or ``package.module:function`` or ``path.py:function``.

    A function is called with the module and ``step``, the number of the call that follows. A module that has nothing
    of the kind is left as it is. Refuses a name that is not known, and a function that is not there.
    """
    if name in CHANGES:
        CHANGES[name](module)
    elif ":" in name:
        load_function(name)(module, step)
    else:
        raise Refusal(
            f"the change {name!r} is unknown",
            limit=f"{', '.join(CHANGES)}, package.module:function, path.py:function",
            next_step="correct the trial",
        )


def swap_parameters(module: nn.Module) -> None:
    """Every floating parameter becomes another object with other values; tied ones stay tied."""
    swapped: dict[nn.Parameter, nn.Parameter] = {}
    for part in module.modules():
        for key, old in list(part.named_parameters(recurse=False, remove_duplicate=False)):
            if not _floating(old):
                continue
            if old not in swapped:
                swapped[old] = nn.Parameter(_others(old), requires_grad=old.requires_grad)
            setattr(part, key, swapped[old])


def update_parameters(module: nn.Module) -> None:
    """Every floating parameter stays the object it is and holds other values, as after an optimiser's step."""
    with torch.no_grad():
        for value in module.parameters():
            if _floating(value):
                value.copy_(_others(value))


def shadow_attribute(module: nn.Module) -> None:
    """A changed copy of a child in its parent's ``__dict__``: attribute look-up finds that before the registered one.

    The first child with parameters whose parent looks its children up by name.
    """
    for parent in module.modules():
        if isinstance(parent, _CONTAINERS):
            continue
        for key, child in parent.named_children():
            if any(_floating(value) for value in child.parameters()):
                shadow = copy.deepcopy(child)
                swap_parameters(shadow)
                object.__setattr__(parent, key, shadow)
                return


def change_attribute(module: nn.Module) -> None:
    """Public numbers that ``forward`` may read: floats become others; where there is none, integers grow by one.

    Integers of torch's own modules are sizes, and are left alone.
    """
    numbers = list(_numbers(module))
    floats = [(part, key, value) for part, key, value in numbers if type(value) is float]
    for part, key, value in floats:
        setattr(part, key, other_float(value))
    for part, key, value in numbers:
        if not floats and type(value) is int and not type(part).__module__.startswith("torch."):
            setattr(part, key, value + 1)


def enlarge_attribute(module: nn.Module) -> None:
    """Public floats that are called an epsilon become large: beside values of any usual size they are then seen.

    For after ``change_attribute``, which leaves them below one half.
    """
    for part, key, value in list(_numbers(module)):
        if type(value) is float and _EPSILON in key.lower():
            setattr(part, key, value * 2.0**_EPSILON_BITS)


def other_float(value: float) -> float:
    """Half of it; a tiny one between a quarter and a half: an epsilon that is halved moves nothing that could be seen.
    A probability stays one, and zero stays zero: a dropout that is switched off draws nothing."""
    return (math.frexp(value)[0] if abs(value) < _TINY else value) * 0.5


def integer_parameters(module: nn.Module) -> None:
    """Floating parameters hold integers of at most 3 in size, so that sums of products with integers are exact."""
    with torch.no_grad():
        for name, value in module.named_parameters():
            if _floating(value):
                generator = torch.Generator().manual_seed(int(hashlib.sha256(name.encode()).hexdigest()[:12], 16))
                value.copy_(torch.randint(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, value.shape, generator=generator))


CHANGES: dict[str, Callable[[nn.Module], None]] = {
    "swap_parameters": swap_parameters,
    "update_parameters": update_parameters,
    "shadow_attribute": shadow_attribute,
    "change_attribute": change_attribute,
    "enlarge_attribute": enlarge_attribute,
    "integer_parameters": integer_parameters,
}


def _floating(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _others(value: torch.Tensor) -> torch.Tensor:
    """Other values of the same size: moved by one position, or doubled and plus one where that changes nothing."""
    old = value.detach()
    moved = torch.roll(old.flatten(), 1).view(old.shape)
    changed = moved if not torch.equal(moved, old) else torch.where(old == 0, 1.0, old * 2).to(old.dtype)
    return torch.empty_like(old, memory_format=torch.preserve_format).copy_(changed)


def _numbers(module: nn.Module) -> Iterator[tuple[nn.Module, str, float | int]]:
    for part in module.modules():
        for key, value in list(vars(part).items()):
            if type(value) in (int, float) and not key.startswith("_"):
                yield part, key, value
