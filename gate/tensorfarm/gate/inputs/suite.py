"""A suite of the contract as a trial: one call, every floating input with values drawn for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

import torch

from tensorfarm.gate.inputs.refill import Draw, floats, refilled
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial


class Deferred(Mapping[str, torch.Tensor]):
    """Tensors of known names, drawn when the first of them is looked at: whoever compares answers looks at none."""

    def __init__(self, names: Iterable[str], draw: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        self._names, self._draw = tuple(names), draw

    @cached_property
    def _drawn(self) -> Mapping[str, torch.Tensor]:
        return self._draw()

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._drawn[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def declared(setting: Setting, suite: str) -> bool:
    """False where the contract leaves the suite out, or no input is floating."""
    return suite in setting.contract.suites and bool(floats(setting))


def drawn_trial(
    setting: Setting,
    suite: str,
    draw: Draw,
    derivative: Derivative,
    *,
    name: str = "",
    depth: Depth = Depth.BUDGET,
    between: str = "",
) -> Trial | None:
    """None where the suite is not declared. The name is the suite's unless it has several trials."""
    if not declared(setting, suite):
        return None
    # Whoever calls with inputs copies them, so that one drawing does for all who ask.
    inputs = setting.drawn.get(name or suite)
    if inputs is None:
        inputs = Deferred(setting.tensors, lambda: refilled(setting, name or suite, draw))
        setting.drawn[name or suite] = inputs
    call = Call(inputs, derivative, between=between, seed=setting.seed)
    return Trial(name or suite, (call,), depth, suite=suite)
