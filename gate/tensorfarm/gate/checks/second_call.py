"""F18, second call: the subject called again after something changed that its guards must notice.

A graph that is stale gives the first call's answer to the second call's question. Each call is compared with the
original after the same changes, by half of the digits: a stale answer is not nearly right. An answer to what the
original refuses by then is the first call's too. Subjects that do not look at their inputs anew are asked once more
where there can be other inputs; for the same ones determinism asks. A sequence of the user's own is looked at on every
level, and is all there is on the quick one.

A child that is shadowed in its parent's ``__dict__`` is asked for at the full level. Dynamo looks children up where
they are registered (torch 2.13), so every module it compiles answers with the old one: a finding would tell nothing of
the module, and of these it is said that nobody asked. In the user's own changes it is judged, on every level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import root_mean_square
from tensorfarm.gate.between import other_float
from tensorfarm.gate.checks import errors
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import aliasing, example, ladder, layouts, normal, promotion
from tensorfarm.gate.inputs.refill import backward, copied, wanting
from tensorfarm.gate.nearness import near
from tensorfarm.gate.observation import Observation, spoken
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import same_stream
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial

NAME, FAMILY, LEVEL, COST = "second_call", "F18", Level.QUICK, 50
_SPREAD = 4.0
_LAYOUT = "transposed"
_KINDS = ("output", "gradient", "input", "buffer")
_CHANGES = ("update_parameters",)
_GUARDED_CHANGES = (*_CHANGES, "swap_parameters", "change_attribute", "enlarge_attribute")
_FULL_CHANGES = ("shadow_attribute",)
_UNASKED = (
    "shadow_attribute: dynamo guards no child that is shadowed in its parent's __dict__, in no module; "
    "where yours does that, give its own calls and changes"
)


def trials(setting: Setting) -> list[Trial]:
    """The example, which a user's sequence takes the place of; one trial of several calls from the standard level on;
    at the full level also every pair of inputs that can be made one."""
    found = [example.trial(setting)]
    if setting.level >= Level.STANDARD:
        calls = tuple(call for _, call in steps(setting))
        found += [Trial(NAME, calls, Depth.EAGER)] if len(calls) > 1 else []
    if setting.level is Level.FULL and setting.facts.guarded:
        found += [replace(trial, depth=Depth.EAGER) for trial in aliasing.trials(setting)]
    return found


def steps(setting: Setting) -> list[tuple[str, Call]]:
    """The calls in order, each with what changed before it. Changes of the module add up; no two calls share a tensor,
    since the program may write to its inputs."""
    found = [("the first call", _plain(setting))]
    if setting.facts.guarded:
        found += _guarded_steps(setting)
    else:
        others = normal.trial(setting)
        if others is not None:
            again = replace(_plain(setting), derivative=backward(setting), inputs=others.calls[0].inputs)
            found.append(("other inputs", again))
    if setting.facts.module:
        found += [(name, replace(_plain(setting), between=name)) for name in _changes(setting)]
    if setting.facts.guarded and backward(setting) is not Derivative.NONE:
        found.append(("gradients wanted", replace(_plain(setting), derivative=backward(setting))))
    return found


def _changes(setting: Setting) -> tuple[str, ...]:
    if not setting.facts.guarded:
        return _CHANGES
    every = setting.level is Level.FULL and not setting.facts.dynamo
    return (*_GUARDED_CHANGES, *_FULL_CHANGES) if every else _GUARDED_CHANGES


def _plain(setting: Setting) -> Call:
    return Call(copied(setting), Derivative.NONE, seed=setting.seed)


def _guarded_steps(setting: Setting) -> Iterator[tuple[str, Call]]:
    laid = layouts.laid_out(setting, _LAYOUT)
    if laid:
        yield "other strides", replace(_plain(setting), inputs=wanting(setting, _turned(setting, laid)))
    converted = promotion.widened(setting)
    if converted:
        yield "other dtypes", replace(_plain(setting), inputs=wanting(setting, {**copied(setting), **converted}))
    shorter = ladder.one_row_less(setting)
    if shorter:
        yield "another size", replace(_plain(setting), inputs=wanting(setting, {**copied(setting), **shorter}))
    literals = _other_literals(setting)
    if literals:
        yield "other literals", replace(_plain(setting), literals=literals)


def _turned(setting: Setting, laid: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """``laid``, and the floating rows of the batch one further: an answer that is kept where the last one was, or that
    is the last one, is then another one."""
    found = {**copied(setting), **laid}
    for name in ladder.batch_axis(setting).keys() - layouts.sharing(setting.tensors):
        if found[name].is_floating_point():
            values = found[name].detach()
            values.copy_(values.roll(1, 0))
    return found


def _other_literals(setting: Setting) -> dict[str, Any]:
    """Floats as an attribute's are changed; where there is none, integers one larger."""
    given = {leaf.name: leaf.literal for leaf in setting.leaves if leaf.example is None}
    floats = {name: other_float(value) for name, value in given.items() if type(value) is float and value}
    return floats or {name: value + 1 for name, value in given.items() if type(value) is int}


def check(evidence: Evidence) -> list[Finding]:
    """For each call but the first: one finding for each output, gradient, and tensor that the original writes to."""
    found = [finding for name in _names(evidence) for finding in _judged(evidence, name)]
    if evidence.setting.level is Level.FULL and evidence.setting.facts.dynamo and evidence.setting.facts.module:
        found.append(replace(inapplicable(NAME, _UNASKED), what=_FULL_CHANGES[0]))
    return found or [inapplicable(NAME, "second_call: no second call could be compared")]


def canary(evidence: Evidence) -> Evidence | None:
    """A later call that answers with the first call's output, where the original's is another one."""
    for name in _names(evidence):
        planted = _stale(evidence, name)
        if planted is not None:
            return planted
    return None


def _names(evidence: Evidence) -> list[str]:
    several = [name for name, trial in evidence.trials.items() if name == example.NAME and len(trial.calls) > 1]
    return [
        *several,
        *(name for name in evidence.trials if name == NAME or name.startswith(f"{aliasing.NAME}:")),
    ]


def _stale(evidence: Evidence, name: str) -> Evidence | None:
    calls = list(evidence.pairs(name))
    for number, wanted, given in calls[1:]:
        if not _comparable(evidence, wanted, given):
            continue
        for key, eager in wanted.eager.tensors.items():
            stale = calls[0][2].tensors.get(key)
            if not key.startswith("output:") or stale is None or key not in given.tensors:
                continue
            if near(NAME, key, stale, eager, spread=_spread(evidence, name, number, key)).status is Status.FAIL:
                tensors = {**given.tensors, key: stale}
                return evidence.with_seen(name, number, replace(given, tensors=tensors))
    return None


def _judged(evidence: Evidence, name: str) -> Iterator[Finding]:
    trial = evidence.trials[name]
    labels = [label for label, _ in steps(evidence.setting)] if name == NAME else []
    answered = False
    for number, wanted, given in evidence.pairs(name):
        place = f"call {number + 1} ({labels[number] if labels else name})"
        message = _one_alone(evidence, wanted, given) if number and answered else ""
        if message:
            yield failed(NAME, place, message).at(trial)
        elif number and _comparable(evidence, wanted, given):
            for finding in _compared(wanted, given, place, partial(_spread, evidence, name, number)):
                yield finding.at(trial)
        answered |= not given.report.error


def _one_alone(evidence: Evidence, wanted: Expectation, given: Observation) -> str:
    """What is wrong where one of the two raises in its forward pass and the other answers; the subject has answered
    before, so it knows what to do with such calls, or thinks it does."""
    eager, seen = wanted.eager.report, given.report
    if seen.error and not eager.error and seen.error_type not in errors.GAVE_UP:
        return f"the original answers, it raises {seen.error}, and has answered before"
    if eager.error and eager.stage == "forward" and not seen.error and evidence.setting.contract.errors != "ignore":
        return f"the original raises {eager.error}, it gave an answer"
    return ""


def _comparable(evidence: Evidence, wanted: Expectation, given: Observation) -> bool:
    """Random numbers are the original's own where the contract says so."""
    drawn_alike = not wanted.random or same_stream(evidence.setting.contract)
    return drawn_alike and not (wanted.eager.report.error or given.report.error)


def _compared(wanted: Expectation, given: Observation, place: str, spread: Callable[[str], float]) -> Iterator[Finding]:
    sizes = [root_mean_square(value.double()) for value in wanted.eager.named("gradient").values() if value.numel()]
    typical = sorted(sizes)[len(sizes) // 2] if sizes else 0.0
    for key, eager in wanted.eager.tensors.items():
        kind = key.partition(":")[0]
        if kind not in _KINDS or (kind in ("input", "buffer") and key not in wanted.changed):
            continue
        if kind == "buffer" and key not in given.tensors:
            continue  # "mutation" says what that means
        scale = typical if kind == "gradient" and math.isfinite(typical) else 0.0
        what = f"{spoken(key)} of {place}"
        yield near(NAME, what, given.tensors.get(key), eager, spread=spread(key), scale=scale)


def _spread(evidence: Evidence, name: str, number: int, key: str) -> float:
    """What may come of this tensor without anything being stale.

    A call of the user's own sequence has a spread of its own, others that of the sequence's calls or the example;
    infinity where the subject is wrong in the very first call, which is not the second call's fault.
    """
    calls = list(evidence.pairs(example.NAME))
    own = [calls[number]] if name == example.NAME else calls
    noise = max((_noise(evidence, wanted, key) for _, wanted, _ in own), default=0.0)
    for _, wanted, given in calls[:1]:
        eager = wanted.eager.tensors.get(key)
        if eager is None or key not in wanted.exact or wanted.random or given.report.error:
            continue
        first = near(NAME, key, given.tensors.get(key), eager, spread=_noise(evidence, wanted, key))
        if first.status is Status.FAIL:
            return math.inf
    return noise


def _noise(evidence: Evidence, wanted: Expectation, key: str) -> float:
    """What rounding can do to a tensor, and how far the original is from its own exact value."""
    contract = evidence.setting.contract
    budget = contract.gradients if key.startswith("gradient:") else contract.outputs
    eager, exact, sigma = wanted.eager.tensors.get(key), wanted.exact.get(key), wanted.sigma.get(key)
    if eager is None or exact is None or sigma is None or not sigma.numel() or wanted.random:
        return 0.0
    if not (eager.is_floating_point() or eager.is_complex()):
        return math.inf if bool(sigma.any()) else 0.0

    def largest() -> float:
        error = torch.sub(eager, exact).abs().nan_to_num_(nan=0.0, posinf=0.0)
        return _SPREAD * (budget.k * float(sigma.max()) + float(error.max()))

    return evidence.once(("noise", budget.k), (eager, exact, sigma), largest)
