"""F1, forward: every floating output, element by element, within the budget that its condition number earns.

No norms: one wrong lane in a million is a fault. A whole verdict without one compared element is no verdict. A program
that draws random numbers is held to the original's values, stream for stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorfarm.gate.compared import Place, agreements, is_floating, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import example
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Trial

NAME = "forward"
FAMILY = "F1"
LEVEL = Level.QUICK
COST = 10


def trials(setting: Setting) -> list[Trial]:
    return [example.trial(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each floating output. Where none has an element, integers or writes to inputs have to do."""

    def compare(place: Place) -> Iterable[Finding]:
        return agreements(evidence, NAME, place, ("output",), is_floating)

    done = walk(evidence, NAME, (example.NAME,), compare)
    done.found += stream_for_stream(evidence, NAME, (example.NAME,), ("output",))
    if not done.decided() and _is_compared_elsewhere(evidence):
        reason = f"{NAME}: no floating output has an element; integers and mutation compare what there is"
        return [*done.found, inapplicable(NAME, reason)]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, (example.NAME,), ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, (example.NAME,))


def _is_compared_elsewhere(evidence: Evidence) -> bool:
    return any(
        wanted.changed or any(value.numel() for value in wanted.eager.named("output").values())
        for _, wanted, _ in evidence.pairs(example.NAME)
    )
