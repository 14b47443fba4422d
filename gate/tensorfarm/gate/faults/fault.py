"""A fault: where in a program it can be planted and what it does there; a change is one such place.

Invariant: everything else of the program is as it was, so whatever a gate sees of a change comes from its site. A
mutant is described by program, kind and number alone, and built anew in the process that runs it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.graph import Graph
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.faults.interpreted import Operator

# Makes something wrong to call out of the original module, which it may keep and call.
Wrap = Callable[[torch.nn.Module], Callable[..., Any]]
KIND = "mutant"


@dataclass(frozen=True)
class Change:
    """One place. Exactly one of ``operators``, ``graph``, ``wrap`` and ``backend`` says what happens there.

    ``operators`` replace single nodes of the captured graph; ``graph`` is a changed graph that any runtime can run.
    ``wrap`` is for what no graph holds: it takes the original module, whose inputs and attributes may change between
    calls. ``backend`` names one for ``torch.compile``. ``seen_here`` is the same change made to show in any process,
    for one that shows on another device or with another compiler alone.
    """

    site: str
    operators: dict[str, Operator] = field(default_factory=dict[str, Operator])
    graph: Graph | None = None
    wrap: Wrap | None = None
    backend: str = ""
    seen_here: Change | None = None


@dataclass(frozen=True)
class Fault:
    """``families`` are the checks that are listed for this kind: a kill by one of them counts, by another does not.

    ``changes`` lists every place of a program, none where it has no such site. An honest kind has no family: whatever
    alarm it raises is false.
    """

    id: str
    families: tuple[str, ...]
    what: str
    changes: Callable[[Program], Iterable[Change]]


@dataclass(frozen=True)
class Mutant:
    """A fault planted. ``site`` says where, for people. ``live`` ones look at their inputs anew at each call."""

    fault_id: str
    families: tuple[str, ...]
    program: str
    seed: int
    site: str
    change: Change

    @property
    def live(self) -> bool:
        return self.change.wrap is not None

    def subject(self, program: Path, python_path: Sequence[str] = ()) -> dict[str, Any]:
        """What a gate is asked to judge. ``program`` is the file that holds the program it is planted in."""
        if self.change.backend:
            return {
                "kind": "compiled",
                "source": self.program,
                "backend": self.change.backend,
                "python_path": list(python_path),
            }
        return {
            "kind": KIND,
            "program": str(program),
            "fault": self.fault_id,
            "seed": self.seed,
            "live": self.live,
            "python_path": list(python_path),
        }


def plant(fault: Fault, program: Program, seed: int) -> Mutant | None:
    """Plant ``fault`` at one of its places; successive seeds take each in turn, in an order of their own."""
    places = list(fault.changes(program))
    if not places:
        return None
    random.Random(f"{fault.id} {program.semantic_hash}").shuffle(places)
    change = places[seed % len(places)]
    said = (bool(change.operators), change.graph is not None, change.wrap is not None, bool(change.backend))
    if sum(said) != 1:
        raise Refusal(f"{fault.id} at {change.site} changes {sum(said)} things", limit="one")
    return Mutant(fault.id, fault.families, program.source, seed, change.site, change)
