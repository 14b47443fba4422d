"""F19, ladder: the program at other sizes: empty, one row, odd and prime numbers of rows, a vector more or less.

Tails, empty reductions and an axis of size one are code of their own, and so are two axes that happen to be as long as
each other in the example. A subject of fixed shapes may refuse another size loudly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.inputs import ladder
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Depth, Derivative, Trial

NAME = "ladder"
FAMILY = "F19"
LEVEL = Level.STANDARD
COST = 80

_PREFIX = f"{ladder.NAME}:"


def trials(setting: Setting) -> list[Trial]:
    """Values need a spread at every size. Gradients are asked for at the full level."""
    found = [replace(trial, depth=Depth.BUDGET) for trial in ladder.trials(setting)]
    if setting.level is Level.FULL:
        return found
    return [
        replace(trial, calls=tuple(replace(call, derivative=Derivative.NONE) for call in trial.calls))
        for trial in found
    ]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient of each size."""

    def compare(place: Place) -> Iterable[Finding]:
        for finding in agreements(evidence, NAME, place, ("output", "gradient")):
            yield replace(finding, what=f"{finding.what} at {place.trial.name.removeprefix(_PREFIX)}")

    done = walk(evidence, NAME, _names(evidence), compare)
    done.found += stream_for_stream(evidence, NAME, _names(evidence))
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, _names(evidence), ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, _names(evidence))


def _names(evidence: Evidence) -> list[str]:
    return [name for name in evidence.trials if name.startswith(_PREFIX)]
