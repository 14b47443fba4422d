"""F12, devices: each device that the contract lists against the oracle, never against another device.

Two devices may share a wrong decomposition. Admission waits for all of them: one that was absent is ``not_run``. Beside
the example each is given exact integers, on which a product of operands that one device truncates (TF32) shows.
"""

from __future__ import annotations

from dataclasses import replace

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.checks.exact_integers import exactly
from tensorfarm.gate.compared import agreements, walk
from tensorfarm.gate.devices import present, sessions_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable, not_run
from tensorfarm.gate.inputs import exact_integers, example
from tensorfarm.gate.planted import integer_step, past_its_limit, planted
from tensorfarm.gate.setting import Facts, Level, Setting
from tensorfarm.gate.trial import MAIN, Session, Trial

NAME, FAMILY, LEVEL, COST = "devices", "F12", Level.QUICK, 30
KINDS = ("output", "gradient")


def trials(setting: Setting) -> list[Trial]:
    others = _others(setting)
    exact = exact_integers.trials(setting) if others else []
    return [replace(trial, sessions=(MAIN, *others)) for trial in (example.trial(setting), *exact)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient on each device, and one for each device that did not run."""
    sessions = _others(evidence.setting)
    if not sessions:
        return [inapplicable(NAME, "devices: the contract lists one alone")]
    found = list[Finding]()
    for session in sessions:
        if not evidence.ran(example.NAME, session.name):
            found.append(_absent(session.device, evidence.setting.facts))
            continue
        compared = walk(evidence, NAME, [example.NAME], lambda place: agreements(evidence, NAME, place, KINDS), session)
        exact = walk(evidence, NAME, _exact(evidence), lambda place: exactly(evidence, NAME, place), session)
        found += [_said_of(session, item) for item in (*compared.settled(), *exact.found)]
    return found


def canary(evidence: Evidence) -> Evidence | None:
    """One element past its limit on one device alone."""
    contract = evidence.setting.contract
    for session in _others(evidence.setting):
        for kind in KINDS:
            for change in (past_its_limit(contract, kind), integer_step):
                changed = planted(evidence, [example.NAME], (kind,), change, session)
                if changed is not None:
                    return changed
    return None


def _absent(device: str, facts: Facts) -> Finding:
    if facts.isolated:
        why = present(device) or "the subject did not get that far there"
        return Finding(NAME, device, Status.NOT_RUN, f"{device}: {why}", device=device)
    fact = f"{device}: live objects are judged on the cpu alone"
    return replace(not_run(NAME, device, fact, "give import strings to have it judged there too"), device=device)


def _said_of(session: Session, item: Finding) -> Finding:
    told = f"{session.device}: {item.message}" if item.message else ""
    return replace(item, what=f"{item.what} on {session.device}", message=told)


def _exact(evidence: Evidence) -> list[str]:
    return [name for name, trial in evidence.trials.items() if trial.suite == exact_integers.NAME]


def _others(setting: Setting) -> tuple[Session, ...]:
    """Sessions of the listed devices, but for the main one where it is the only device that is listed."""
    return tuple(session for session in sessions_of(setting.contract) if session != MAIN)
