"""F6, gradient: vector-Jacobian products against the reference's autograd, for every trained weight and wanting input.

The forward pass is right in most reported gradient faults. A gradient is None exactly where the reference's is. Several
cotangents are given: one of stride 0, as a sum hands back, one in another memory layout than its output, one that is
zero but for an element. At ties of maxima the gradient goes where the reference sends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable, not_run
from tensorfarm.gate.inputs import example, layouts, ties
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Cotangent, Depth, Derivative, Trial

NAME = "gradient"
FAMILY = "F6"
LEVEL = Level.QUICK
COST = 30


def trials(setting: Setting) -> list[Trial]:
    """``example``; from the standard level on one trial for each kind of cotangent, the call of a layout that has it or
    else ``cotangent:KIND``; ``one_hot`` and ``ties`` at the full one. None for inference."""
    if not _applies(setting):
        return []
    plain = example.trial(setting)
    found: list[Trial | None] = [plain]
    if setting.level >= Level.STANDARD:
        left_out = (Cotangent.NORMAL, Cotangent.ONE_HOT) if setting.level < Level.FULL else (Cotangent.NORMAL,)
        kinds = [Cotangent(kind) for kind in setting.contract.cotangents if kind not in left_out]
        found += [_carried(setting, kind) or _with_cotangent(plain, kind) for kind in kinds]
    if setting.level is Level.FULL:
        found.append(ties.trial(setting))
    return [trial for trial in found if trial is not None]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each gradient of each trial. Not run where the program has nothing to differentiate."""
    setting = evidence.setting
    if not _applies(setting):
        return [inapplicable(NAME, f"{NAME}: the subject is judged for inference")]

    def compare(place: Place) -> Iterable[Finding]:
        return agreements(evidence, NAME, place, ("gradient",))

    done = walk(evidence, NAME, _names(evidence), compare)
    done.found += stream_for_stream(evidence, NAME, _names(evidence), ("gradient",))
    if not done.found and done.asked > done.silent:
        fact = f"{NAME}: no output has a gradient by a weight or an input"
        return [not_run(NAME, "gradients", fact, 'judge it with "mode: inference"')]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    change = past_its_limit(evidence.setting.contract, "gradient")
    found = planted(evidence, _names(evidence), ("gradient",), change)
    return found or out_of_stream(evidence, _names(evidence), "gradient")


def _applies(setting: Setting) -> bool:
    return setting.mode == "training" and setting.facts.trainable


def _names(evidence: Evidence) -> list[str]:
    return [trial.name for trial in trials(evidence.setting)]


def _carried(setting: Setting, kind: Cotangent) -> Trial | None:
    """The call of a layout of the example that asks for this cotangent already."""
    for layout, cotangent in layouts.COTANGENTS.items():
        if cotangent is kind and setting.level < Level.FULL and layout in setting.contract.layouts:
            trial = layouts.trial(setting, layout)
            return None if trial is None else replace(trial, depth=Depth.BUDGET)
    return None


def _with_cotangent(plain: Trial, kind: Cotangent) -> Trial:
    calls = tuple(replace(call, derivative=Derivative.VJP, cotangent=kind) for call in plain.calls)
    return replace(plain, name=f"cotangent:{kind.value}", calls=calls)
