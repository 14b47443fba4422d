"""Random numbers scaled wrongly, kept at the wrong rate, or drawn a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.grafted import grafted
from tensorfarm.gate.faults.interpreted import Given
from tensorfarm.gate.faults.places import Place, places


def _drawing(program: Program) -> Iterator[Place]:
    for found in places(program, ("native_dropout", "dropout")):
        if found.given.get("train") and found.given["p"] not in (0.0, 1.0):
            yield found


def _second_masks(program: Program) -> Iterator[Change]:
    for found in _drawing(program):
        yield found.change("backward draws its mask again", _drawn_again)


def _drawn_again(right: Callable[[Given], Any], given: Given) -> Any:
    """The stream ends where it should: only the mask tells."""
    value = right(given)
    state = torch.get_rng_state()
    other = right(given)
    torch.set_rng_state(state)
    return (grafted(value[0], other[0]), value[1]) if isinstance(value, tuple) else grafted(value, other)


def _wrong_rates(program: Program) -> Iterator[Change]:
    for found in _drawing(program):
        yield found.change("kept values not scaled", _unscaled)
        if found.given["p"] != 0.5:
            yield found.change("p and 1 - p swapped", lambda right, given: right({**given, "p": 1 - given["p"]}))


def _unscaled(right: Callable[[Given], Any], given: Given) -> Any:
    value = right(given)
    kept = 1 - given["p"]
    return (value[0] * kept, value[1]) if isinstance(value, tuple) else value * kept


FAULTS = (
    Fault("M16", ("gradient", "rng"), "draws the mask again in backward", _second_masks),
    Fault("M28", ("rng",), "scales or keeps at another rate", _wrong_rates),
)
