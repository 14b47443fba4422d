"""How coarsely each operator of the original rounds: its dtypes, noted in call order for the noise to replay.

A program of several dtypes is not as coarse everywhere as where it is coarsest. The wide run cannot tell: it keeps
float64 where the original casts. Invariant: a replay that meets another operator than was noted says nothing from there
on, and the noise then takes the coarsest roundoff.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.rounding import Rounding, name_of, rounding_in

_CASTS = frozenset({"_to_copy", "copy_"})
_BY_ROUNDOFF = {
    torch.finfo(dtype).eps / 2: torch.finfo(dtype)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
}


@dataclass(frozen=True)
class Step:
    """One operator that rounds. ``cast`` are its operands, by position, that are casts to a narrower dtype, with the
    roundoff of that dtype: they err before the operator does. ``largest`` is the largest number of its results."""

    name: str
    roundoff: float
    largest: float = math.inf
    cast: tuple[tuple[int, float], ...] = ()


def largest_of(roundoff: float) -> float:
    """The largest finite number of the floating dtype with this roundoff; infinite where none has it."""
    return _BY_ROUNDOFF[roundoff].max if roundoff in _BY_ROUNDOFF else math.inf


def dtype_of(roundoff: float) -> torch.dtype:
    """The floating dtype with this roundoff; float64 where none has it."""
    return getattr(torch, _BY_ROUNDOFF[roundoff].dtype) if roundoff in _BY_ROUNDOFF else torch.float64


def smallest_of(roundoff: float) -> float:
    """The smallest normal number of that dtype; zero where none has this roundoff."""
    return _BY_ROUNDOFF[roundoff].smallest_normal if roundoff in _BY_ROUNDOFF else 0.0


@dataclass(frozen=True)
class Recorded:
    """Operators that round, in call order, backward ones included."""

    steps: tuple[Step, ...]

    @property
    def coarsest(self) -> float:
        """The largest roundoff of any operator, 0 where none rounds."""
        return max((max(step.roundoff, *(size for _, size in step.cast), 0.0) for step in self.steps), default=0.0)

    @property
    def is_uniform(self) -> bool:
        """One roundoff everywhere: nothing that a replay would add."""
        return all(step.roundoff == self.coarsest for step in self.steps)

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


def recorded(run: Callable[[], object]) -> Recorded:
    """Call ``run``, which runs the original in its own dtypes under the same ``Expanded`` as the wide runs."""
    with Recording() as recording:
        run()
    return recording.recorded()


class Recording(TorchDispatchMode):
    """Follows casts by their storages, which it holds, so that none is taken for a later one at the same place."""

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
            self._follow(result, max((self._cast_size(value) for value in _tensors(args)), default=0.0))
        return result

    def _cast_size(self, value: Any) -> float:
        if not isinstance(value, torch.Tensor) or not self._narrowed or is_nowhere(value):
            return 0.0
        return self._narrowed.get(value.untyped_storage().data_ptr(), (0.0, None))[0]

    def _follow(self, result: Any, size: float) -> None:
        for value in _tensors([result]) if size else ():
            if is_nowhere(value):
                continue
            storage = value.untyped_storage()
            self._narrowed[storage.data_ptr()] = (size, storage)


def is_nowhere(value: torch.Tensor) -> bool:
    """What forward-mode differentiation makes zeros and their shapes of holds no numbers."""
    return value.is_meta or value._is_zerotensor()


def _tensors(values: Any) -> list[torch.Tensor]:
    """Tensors among operands, those in lists included."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def _roundoff(result: Any) -> float:
    """Half of the coarsest ``eps`` among floating tensors, 0 where there is none."""
    return max(
        (
            torch.finfo(value.dtype).eps / 2
            for value in _tensors([result])
            if value.is_floating_point() or value.is_complex()
        ),
        default=0.0,
    )
