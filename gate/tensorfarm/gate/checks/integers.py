"""F2, integers: integer and boolean outputs bit for bit. A relative tolerance on an index hides being off by one.

The operator behind an output is not known here, so ``value_at_index`` is kept by its own rule: an index, a rounded
value or a comparison may differ only where noise of the program's roundoff changes it in the oracle, or where the
original itself differs from the oracle. A tie that noise does not touch is broken as the original breaks it. Under
``exact`` the original's value is required wherever the oracle has the same one, noise or not.

On integers that the example does not have, outputs of every kind are compared: what was lost may have been rounded on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorfarm.gate.checks import conditioning
from tensorfarm.gate.compared import Place, agreements, every, is_discrete, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import exact_integers, example, other_integers
from tensorfarm.gate.planted import integer_step, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Trial

NAME = "integers"
FAMILY = "F2"
LEVEL = Level.QUICK
COST = 8


def trials(setting: Setting) -> list[Trial]:
    """Rounding half away from zero shows on ties alone, a wrong comparison near kinks alone."""
    found = [example.trial(setting), *exact_integers.trials(setting)]
    if setting.level is Level.QUICK:
        return found
    return [*found, *conditioning.trials(setting), *other_integers.trials(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output of integers or booleans, and for each of all on other integers."""
    strict = evidence.setting.contract.index_outputs == "exact"

    def compare(place: Place) -> Iterable[Finding]:
        if strict:
            place = replace(place, wanted=replace(place.wanted, sigma={}))
        other = place.trial.suite == other_integers.NAME
        return agreements(evidence, NAME, place, ("output",), every if other else is_discrete)

    done = walk(evidence, NAME, _names(evidence), compare)
    if not done.found and done.asked > done.silent:
        return [inapplicable(NAME, f"{NAME}: no output holds integers or booleans")]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    return planted(evidence, _names(evidence), ("output",), integer_step)


def _names(evidence: Evidence) -> list[str]:
    others = [name for name, trial in evidence.trials.items() if trial.suite == other_integers.NAME]
    return [example.NAME, *exact_integers.names(evidence.setting), *conditioning.NAMES, *others]
