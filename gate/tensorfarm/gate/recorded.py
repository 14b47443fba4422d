"""How coarsely each operator of the original rounds: its dtypes, noted in call order for the noise to replay.

A program of several dtypes is not as coarse everywhere as where it is coarsest. The wide run cannot tell: it keeps
float64 where the original casts. Invariant: a replay that meets another operator than was noted says nothing from there
on, and the noise then takes the coarsest roundoff.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.operands import is_nowhere, tensors_in
from tensorfarm.gate.rounding import Rounding, name_of, rounding_in
from tensorfarm.gate.roundoff import largest_of, roundoff_of

_CASTS = frozenset({"_to_copy", "copy_"})


@dataclass(frozen=True)
class Step:
    """One operator that rounds. ``cast`` are its operands, by position, that are casts to a narrower dtype, with the
    roundoff of that dtype: they err before the operator does. ``largest`` is the largest number of its results."""

    name: str
    roundoff: float
    largest: float = math.inf
    cast: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Recorded:
    """Operators that round, in call order, backward ones included."""

    steps: tuple[Step, ...]

    def replay(self) -> Replay:
        return Replay(self.steps)


class Replay:
    """Walks through a record beside another run of the program."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._left = iter(steps)
        self._lost = False

    def step(self, func: Any) -> Step | None:
        """The step of this operator, None once the order differs from the record's."""
        found = None if self._lost else next(self._left, None)
        self._lost = found is None or found.name != name_of(func)
        return None if self._lost else found


class Recording(TorchDispatchMode):
    """Is entered around the original in its own dtypes, under the same ``Expanded`` as the wide runs. Follows casts by
    their storages, which it holds, so that none is taken for a later one at the same place."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._narrowed: dict[int, tuple[float, torch.UntypedStorage]] = {}

    def recorded(self) -> Recorded:
        """What was noted so far."""
        return Recorded(tuple(self.steps))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = name_of(func)
        kind = rounding_in(func, args)
        if kind is not Rounding.EXACT:
            cast = tuple((place, size) for place, value in enumerate(args) if (size := self._cast_size(value)))
            # What writes to a list of tensors gives none back.
            size = _roundoff(result) or _roundoff(args)
            coarsest = max(size, *(narrow for _, narrow in cast), 0.0)
            self.steps.append(Step(name, coarsest, largest_of(size), cast))
        elif name in _CASTS:
            source = args[1] if name == "copy_" else args[0]
            narrower = _roundoff(result) > _roundoff(source)
            self._follow(result, _roundoff(result) if narrower else self._cast_size(source))
        else:
            self._follow(result, max((self._cast_size(value) for value in tensors_in(args)), default=0.0))
        return result

    def _cast_size(self, value: Any) -> float:
        if not isinstance(value, torch.Tensor) or not self._narrowed or is_nowhere(value):
            return 0.0
        return self._narrowed.get(value.untyped_storage().data_ptr(), (0.0, None))[0]

    def _follow(self, result: Any, size: float) -> None:
        for value in tensors_in([result]) if size else ():
            if is_nowhere(value):
                continue
            storage = value.untyped_storage()
            self._narrowed[storage.data_ptr()] = (size, storage)


def _roundoff(result: Any) -> float:
    """The coarsest among floating tensors, 0 where there is none."""
    return max(
        (roundoff_of(value.dtype) for value in tensors_in([result]) if value.is_floating_point() or value.is_complex()),
        default=0.0,
    )
