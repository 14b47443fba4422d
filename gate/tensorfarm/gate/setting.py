"""What a check may know before anything has run: the contract, the inputs, what the subject can be asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.refusal import Refusal, shown


class Level(IntEnum):
    """How much is asked of a subject; each includes those before."""

    QUICK = 1
    STANDARD = 2
    FULL = 3


LEVELS = tuple(level.name.lower() for level in Level)
MOST_SEED = (1 << 63) - 1


def refuse_seed(seed: Any) -> None:
    """Refuse what no generator of torch begins with."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= MOST_SEED:
        raise Refusal(f"seed is {shown(seed)}", limit=f"a whole number from 0 to {MOST_SEED}", next_step="correct seed")


@dataclass(frozen=True)
class Leaf:
    """One input. ``example`` is None where it is no tensor, ``literal`` then its value."""

    name: str
    example: torch.Tensor | None
    literal: Any = None
    requires_grad: bool = False


@dataclass(frozen=True)
class Facts:
    """What the subject is. A fixed shape or layout may be refused loudly by it, where another subject must match.

    ``isolated``: it runs in processes of its own. ``trainable``: it has a backward pass. ``module``: it holds
    parameters under qualified names that can be swapped between calls. ``guarded``: it looks at its inputs anew at each
    call, as ``torch.compile`` does. ``dynamo``: TorchDynamo traced it. ``secretive``: it may keep tensors between calls
    that cannot be looked at.
    """

    kind: str
    fixed_shapes: bool = False
    fixed_layouts: bool = False
    isolated: bool = True
    trainable: bool = True
    module: bool = False
    guarded: bool = False
    dynamo: bool = False
    secretive: bool = False


@dataclass(frozen=True)
class Setting:
    """``mode`` is ``inference`` or ``training``. ``only`` names the families that are asked; empty for all of the
    level's. ``drawn`` keeps what was drawn from these inputs: several families ask for the same."""

    contract: NumericalContract
    leaves: tuple[Leaf, ...]
    facts: Facts
    mode: str
    level: Level
    seed: int
    only: frozenset[str] = frozenset()
    drawn: dict[Any, Any] = field(default_factory=dict[Any, Any], init=False, repr=False, compare=False)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The example inputs that are tensors, by name."""
        return {leaf.name: leaf.example for leaf in self.leaves if leaf.example is not None}
