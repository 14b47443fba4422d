"""What can happen in a bisection. ``subject`` is the cell whose candidate failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tensorfarm.contract.event import Event


@dataclass(frozen=True)
class BisectionStarted(Event):
    """A failing candidate is searched for the decision that breaks it. ``width`` is the number of probes a round.

    ``failure`` is what a probe must show to count as bad: outcome, kind and failing checks, as canonical JSON.
    ``landmarks`` are the sites at which another pass begins, ``idle`` those that changed nothing while all were on.
    """

    bisection_id: str
    candidate_id: str
    backend: str
    n_sites: int
    width: int
    failure: str
    landmarks: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()


@dataclass(frozen=True)
class ProbeDecided(Event):
    """One probe was compiled and judged. ``probe`` is which sites were on, as text; ``step`` numbers the probes.

    ``outcome``: good, bad, skip (it failed in another way, which ``message`` tells) or unsteady (compiled twice, it
    came out differently).
    """

    told_apart_by: ClassVar[tuple[str, ...]] = ("step", "probe")
    bisection_id: str
    candidate_id: str
    step: int
    round: int
    axis: str
    probe: str
    outcome: str
    message: str
    seconds: float
    node_id: str = ""


@dataclass(frozen=True)
class BisectionFinished(Event):
    """The search has ended. ``status``: confirmed, several, range, unattributed, flaky or undecided.

    ``reproducer`` is a path below the store's root, empty where none was written; ``reproduced`` says that it was seen
    to fail in a fresh process and to pass with the culprit off.
    """

    bisection_id: str
    candidate_id: str
    status: str
    pass_name: str
    site: str
    site_index: int
    nodes: tuple[str, ...]
    rounds: int
    probes: int
    seconds: float
    reproducer: str
    reproduced: bool
    message: str
