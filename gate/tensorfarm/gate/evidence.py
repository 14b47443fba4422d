"""Everything a check looks at: what was asked, what should have come out, what did. Checks are functions of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import MAIN, Trial

T = TypeVar("T")


@dataclass(frozen=True)
class Evidence:
    """``expected`` is by trial; ``seen`` by session and trial. Each holds one item a call; a trial that a session did
    not reach is absent there. ``names`` maps a gradient's or buffer's name to what a person calls it.

    ``compared`` keeps comparisons of tensors that were made, with the tensors: evidence with a fault planted in it is
    the same but for one tensor, and only that one is compared again.
    """

    setting: Setting
    trials: Mapping[str, Trial]
    expected: Mapping[str, tuple[Expectation, ...]]
    seen: Mapping[str, Mapping[str, tuple[Observation, ...]]]
    compared: dict[Any, tuple[Any, Any]] = field(default_factory=dict[Any, tuple[Any, Any]], repr=False, compare=False)

    def once(self, question: tuple[Any, ...], about: Sequence[torch.Tensor | None], answer: Callable[[], T]) -> T:
        """What ``answer`` says of these very tensors, asked the first time; it must hang on nothing else."""
        key = (*question, *map(id, about))
        if key not in self.compared:
            self.compared[key] = answer(), about  # held, so that no other tensor comes to have its id
        return self.compared[key][0]

    def ran(self, name: str, session: str = MAIN.name) -> tuple[Observation, ...]:
        """What a session saw of a trial; empty where it did not run."""
        return self.seen.get(session, {}).get(name, ())

    def pairs(self, name: str, session: str = MAIN.name) -> Iterator[tuple[int, Expectation, Observation]]:
        """Calls of a trial with what was expected of each; ends where the subject did not get further."""
        for number, (wanted, given) in enumerate(
            zip(self.expected.get(name, ()), self.ran(name, session), strict=False)
        ):
            yield number, wanted, given

    def with_seen(self, name: str, call: int, changed: Observation, session: str = MAIN.name) -> Evidence:
        """The same evidence with one observation replaced, for planting a fault in it."""
        calls = list(self.ran(name, session))
        calls[call] = changed
        trials = {**self.seen.get(session, {}), name: tuple(calls)}
        return replace(self, seen={**self.seen, session: trials})
