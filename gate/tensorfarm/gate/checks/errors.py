"""F23, errors: what the original refuses is refused, in the same part of the call or before; what it answers,
is answered.

An answer from an invalid program is silent. Which exception is raised does not count. A subject that is built for fixed
shapes or layouts may refuse others, and a derivative that it was not built for. A compiler that gives up is loud, and
computes nothing wrong: on the example that leaves the subject undecided. Of a call that the program's owner did not ask
for, two things are said and not counted: such a compiler; and an operator that has no kernel for a dtype, or no such
derivative, which is a lack of the original and no rule of the program.
"""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable, not_run
from tensorfarm.gate.inputs import example
from tensorfarm.gate.limits import ran_out_of_memory
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Call, Derivative, Trial

NAME, FAMILY, LEVEL, COST = "errors", "F23", Level.QUICK, 11
_CANARY = "RuntimeError: planted"
# What torch.compile raises where it does not get as far as running what it compiled.
GAVE_UP = frozenset({"BackendCompilerFailed", "InductorError", "InternalTorchDynamoError", "Unsupported"})
# What torch says of an operator that means something and has not been written.
_LACKS = re.compile(r"derivative for \S+ is not implemented|has not been implemented|\" not implemented for '")
_NEXT_STEP = "call it once with the example inputs to see the compiler's whole message"
_OPTIONAL = (Derivative.VJP_OF_VJP, Derivative.JVP)


def trials(setting: Setting) -> list[Trial]:
    return [example.trial(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """A finding for every call that either of the two refused, and one pass for all the others."""
    if evidence.setting.contract.errors == "ignore":
        return [inapplicable(NAME, "errors: the contract ignores them")]
    found, answered = list[Finding](), 0
    for name, trial in evidence.trials.items():
        for session in trial.sessions:
            for number, wanted, given in evidence.pairs(name, session.name):
                if wanted.eager.report.error or given.report.error:
                    what = trial.name if len(trial.calls) == 1 else f"{trial.name} call {number + 1}"
                    what = what if session.name == MAIN.name else f"{what} in {session.name}"
                    finding = _judged(evidence.setting, what, trial, trial.calls[number], wanted, given)
                    found.append(finding.at(trial, session))
                else:
                    answered += 1
    if answered:
        found.append(Finding(NAME, "calls that both answer", Status.PASS, n_elements=answered))
    return found or [inapplicable(NAME, "errors: no call was made")]


def canary(evidence: Evidence) -> Evidence | None:
    """The first call of the example says that it raised; where the original does, that it answered."""
    for number, wanted, given in evidence.pairs(example.NAME):
        error = "" if wanted.eager.report.error else _CANARY
        report = replace(given.report, error=error, error_type="RuntimeError" if error else "", stage="forward")
        return evidence.with_seen(example.NAME, number, replace(given, report=report))
    return None


def _judged(setting: Setting, what: str, trial: Trial, call: Call, wanted: Expectation, given: Observation) -> Finding:
    """One call that at least one of the two refused."""
    eager, seen = wanted.eager.report, given.report
    if trial.name != example.NAME and eager.stage != seen.stage and _LACKS.search(_first_line(eager.error)):
        message = f"{what}: the original has no implementation, {_first_line(eager.error)}"
        return Finding(NAME, what, Status.NOT_RUN, message, required=False)
    if eager.error:
        if not seen.error and ran_out_of_memory(eager.error):
            message = f"{what}: the original ran out of memory, so there is nothing to compare with: {eager.error}"
            return Finding(NAME, what, Status.NOT_RUN, message, required=trial.suite == example.NAME)
        if not seen.error:
            return failed(NAME, what, f"the original raises {_first_line(eager.error)}, it gave an answer")
        if eager.stage == "forward" != seen.stage:
            message = f"the original's forward pass raises {_first_line(eager.error)}, its own gave an answer"
            return failed(NAME, what, message)
        return Finding(NAME, what, Status.PASS, "both raise", n_elements=1)
    asked, gave_up = trial.name == example.NAME, seen.error_type in GAVE_UP
    reason = "" if asked and gave_up else _may_refuse(setting, call)
    if reason:
        return Finding(NAME, what, Status.PASS, f"{what}: refused, {reason}", n_elements=1)
    if gave_up:
        fact = f"{what}: it could not be compiled, {_first_line(seen.error)}"
        if asked:
            return not_run(NAME, what, fact, _NEXT_STEP)
        return Finding(NAME, what, Status.NOT_RUN, fact, required=False)
    return failed(NAME, what, f"the original answers, it raises {_first_line(seen.error)}")


def _may_refuse(setting: Setting, call: Call) -> str:
    """Why a refusal is no fault, or empty."""
    facts = setting.facts
    if call.derivative in _OPTIONAL:
        return "and a derivative of that kind may be"
    if call.derivative not in (Derivative.NONE, Derivative.GRAPH) and not facts.trainable:
        return "and it has no backward pass"
    for leaf in setting.leaves:
        given, example_input = call.inputs.get(leaf.name), leaf.example
        if given is None or example_input is None:
            continue
        if facts.fixed_shapes and (given.shape, given.dtype) != (example_input.shape, example_input.dtype):
            return "and it is built for fixed shapes and dtypes"
        laid = _layout(given) == _layout(example_input) and given.requires_grad == leaf.requires_grad
        if facts.fixed_layouts and not laid:
            return "and it is built for fixed layouts"
    return "and it is built for fixed literals" if facts.fixed_shapes and call.literals else ""


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    # A kernel built for aligned inputs may refuse others: where in its storage a tensor begins is part of its layout.
    return tensor.stride(), tensor.storage_offset()


def _first_line(error: str) -> str:
    return error.splitlines()[0] if error else error
