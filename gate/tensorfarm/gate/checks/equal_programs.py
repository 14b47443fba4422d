"""F9, equal programs: the same function written otherwise is the same function.

One form sends inputs and outputs through operations that change no bit, one runs the batch in two halves. Each is held
against what the original gives in that form, on the example within its budget and on exact integers bit for bit: there
all forms have one answer, so two that are compiled to different answers cannot both pass. Where random numbers are the
original's own, a form that draws them is held against the original in that form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorfarm.gate.checks.exact_integers import exactly
from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import exact_integers, example, signs
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Depth, Derivative, Trial
from tensorfarm.gate.variant import IDENTITY, SPLIT_BATCH

NAME = "equal_programs"
FAMILY = "F9"
LEVEL = Level.FULL
COST = 130

_FORMS = (IDENTITY, SPLIT_BATCH)
_FORWARD = f"{example.NAME}:forward"
_ASKED = (example.NAME, _FORWARD, exact_integers.NAME, signs.NAME)


def trials(setting: Setting) -> list[Trial]:
    return trials_of_forms(setting, _FORMS)


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient of each form."""
    return findings_of_forms(evidence, NAME, _FORMS)


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, names(_FORMS), ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, names(_FORMS))


def trials_of_forms(setting: Setting, forms: Iterable[str]) -> list[Trial]:
    """The example, with gradients and without, and exact values in each form; none for what is no compiled module."""
    if not (setting.facts.guarded and setting.facts.module):
        return []
    first = example.trial(setting)
    asked = (first, _forward(first), exact_integers.trial(setting), signs.trial(setting))
    return [
        replace(trial, name=_name(form, trial.name), variant=form)
        for form in forms
        for trial in asked
        if trial is not None
    ]


def _forward(trial: Trial) -> Trial | None:
    """The same without its gradients: in parts, a program that writes to its inputs may have none."""
    if trial.calls[0].derivative is Derivative.NONE:
        return None
    calls = tuple(replace(call, derivative=Derivative.NONE) for call in trial.calls)
    return replace(trial, name=_FORWARD, calls=calls)


def findings_of_forms(evidence: Evidence, check_name: str, forms: Iterable[str]) -> list[Finding]:
    """What ``check`` of a family about forms says."""
    if not (evidence.setting.facts.guarded and evidence.setting.facts.module):
        return [inapplicable(check_name, f"{check_name}: the subject is not compiled from a module")]

    def compare(place: Place) -> Iterable[Finding]:
        if place.trial.depth < Depth.BUDGET:
            return exactly(evidence, check_name, place)
        return agreements(evidence, check_name, place, ("output", "gradient"))

    done = walk(evidence, check_name, names(forms), compare)
    done.found += stream_for_stream(evidence, check_name, names(forms))
    return done.settled()


def names(forms: Iterable[str]) -> list[str]:
    return [_name(form, name) for form in forms for name in _ASKED]


def _name(form: str, asked: str) -> str:
    return f"form:{form}:{asked}"
