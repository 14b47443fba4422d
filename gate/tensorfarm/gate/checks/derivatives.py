"""F7, derivatives: gradients of gradients and forward-mode derivatives match the reference's, or are refused.

A subject that raises has refused, and that is right. A derivative that is missing without a word, as if the function
were constant, is a fault of its own kind: whoever trains with it sees numbers. One that is there, and whose limit is
too wide to decide by, is said and not counted: each differentiation costs digits which outputs and gradients still
have, and the owner of the program did not ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Derivative, Trial

NAME = "derivatives"
FAMILY = "F7"
LEVEL = Level.FULL
COST = 120

SECOND, FORWARD = "second_order", "forward_mode"
KINDS = {SECOND: ("gradient", "second"), FORWARD: ("tangent",)}
_REFUSED = "refused"


def trials(setting: Setting) -> list[Trial]:
    """What the contract asks for of a subject that can be differentiated at all."""
    if setting.mode != "training" or not setting.facts.trainable:
        return []
    plain, contract = example.trial(setting), setting.contract
    found = [(SECOND, Derivative.VJP_OF_VJP, contract.gradgrad), (FORWARD, Derivative.JVP, contract.forward_ad)]
    return [_derived(plain, name, derivative) for name, derivative, rule in found if rule == "match_or_refuse"]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each derivative, or one that says that they were refused."""

    def compare(place: Place) -> Iterable[Finding]:
        for kind in KINDS[place.trial.name]:
            for finding in agreements(evidence, NAME, place, (kind,)):
                open_ = finding.status is Status.UNDECIDABLE and kind != "gradient"
                yield replace(finding, required=False) if open_ else finding

    found: list[Finding] = []
    for trial in trials(evidence.setting):
        done = walk(evidence, NAME, (trial.name,), compare)
        found += done.found or [_without(evidence, trial)]
    return found or [inapplicable(NAME, f"{NAME}: the subject is judged for inference, or the contract asks for none")]


def canary(evidence: Evidence) -> Evidence | None:
    """A derivative that vanishes without a word, else one element past its limit."""
    names = [trial.name for trial in trials(evidence.setting)]
    for name, number, key in _keys(evidence, names):
        given = evidence.ran(name)[number]
        kept = {other: value for other, value in given.tensors.items() if other != key}
        return evidence.with_seen(name, number, replace(given, tensors=kept))
    return planted(evidence, names, ("gradient",), past_its_limit(evidence.setting.contract, "gradient"))


def _keys(evidence: Evidence, names: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    for name in names:
        for number, wanted, given in evidence.pairs(name):
            if wanted.eager.report.error or given.report.error or wanted.random:
                continue
            for kind in ("second", "tangent"):
                for item, _ in wanted.all_expected(kind):
                    if f"{kind}:{item}" in given.tensors:
                        yield name, number, f"{kind}:{item}"


def _derived(plain: Trial, name: str, derivative: Derivative) -> Trial:
    return replace(plain, name=name, calls=tuple(replace(call, derivative=derivative) for call in plain.calls))


def _without(evidence: Evidence, trial: Trial) -> Finding:
    """Nothing to compare: the subject refused, or there is no such derivative of the original."""
    calls = list(evidence.pairs(trial.name))
    if any(given.report.error and not wanted.eager.report.error for _, wanted, given in calls):
        return replace(passed(NAME, trial.name), message=f"{trial.name}: {_REFUSED}").at(trial)
    return inapplicable(NAME, f"{trial.name}: the original has no such derivative").at(trial)
