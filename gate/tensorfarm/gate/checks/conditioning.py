"""F5, conditioning: inputs of other sizes and at other places, each judged by what its own condition number allows.

A dropped epsilon shows at size 1e-3, a softmax without its maximum at wide exponents, a bound off by its equals sign at
a kink. Limits come from the spread of the perturbed oracle on the very same inputs, so an input that makes the program
ill-conditioned earns a wider limit, or decides nothing. A program that draws random numbers is held to the original's
values on them, stream for stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.inputs import near_kink, normal, small_scale, ties, wide_exponent
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Derivative, Trial

NAME = "conditioning"
FAMILY = "F5"
LEVEL = Level.STANDARD
COST = 60

SUITES = (normal, small_scale, wide_exponent, ties, near_kink)
NAMES = tuple(suite.NAME for suite in SUITES)


def trials(setting: Setting) -> list[Trial]:
    """One a suite. Gradients are asked for on normal numbers, and on all suites at the full level."""
    found = [suite.trial(setting) for suite in SUITES]
    backward = {normal.NAME} if setting.level < Level.FULL else {suite.NAME for suite in SUITES}
    return [trial if trial.name in backward else _forward(trial) for trial in found if trial is not None]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output, and each gradient, of each suite."""

    def compare(place: Place) -> Iterable[Finding]:
        return agreements(evidence, NAME, place, ("output", "gradient"))

    done = walk(evidence, NAME, NAMES, compare)
    done.found += stream_for_stream(evidence, NAME, NAMES)
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, NAMES, ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, NAMES)


def _forward(trial: Trial) -> Trial:
    return replace(trial, calls=tuple(replace(call, derivative=Derivative.NONE) for call in trial.calls))
