"""F24, process state: a call leaves the floating-point unit, torch's settings and the random stream as they were.

A kernel that leaves flush-to-zero on makes every later eager result wrong, its own excepted. What the original itself
changes must be changed alike; the random stream may move where the original draws.
"""

from __future__ import annotations

from dataclasses import replace

from tensorfarm.contract.exchange import CallReport
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import SAME_STREAM
from tensorfarm.gate.trial import Trial

NAME, FAMILY, LEVEL, COST = "process_state", "F24", Level.QUICK, 12
_STREAM, _CANARY = "random_stream", "subnormals_torch"
_POSITIONS = (_STREAM, "other_streams")


def trials(setting: Setting) -> list[Trial]:
    return [example.trial(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """A failure for each setting that a call left changed, in any session; else one pass for the calls looked at."""
    found, looked_at = dict[str, Finding](), 0
    draws = any(wanted.random for _, wanted, _ in evidence.pairs(example.NAME))
    # A stream of its own moves also in calls where the original happens to draw nothing: of no rows, or refused.
    own_stream = draws and evidence.setting.contract.rng != SAME_STREAM
    for session, seen in evidence.seen.items():
        for name in seen:
            for number, wanted, given in evidence.pairs(name, session):
                looked_at += bool(given.report.state_after)
                for setting, message in _left_behind(wanted, given.report).items():
                    if setting == _STREAM and own_stream:
                        continue
                    told = f"{message} (trial {name}, call {number + 1}, session {session})"
                    found.setdefault(setting, failed(NAME, setting, told))
    if not looked_at:
        return [inapplicable(NAME, "process_state: no call told the state around it")]
    return list(found.values()) or [passed(NAME, "settings", looked_at)]


def canary(evidence: Evidence) -> Evidence | None:
    """Flush-to-zero turned on, or off, by the first call."""
    for number, _, given in evidence.pairs(example.NAME):
        after = given.report.state_after
        if _CANARY in after:
            report = replace(given.report, state_after={**after, _CANARY: not after[_CANARY]})
            return evidence.with_seen(example.NAME, number, replace(given, report=report))
    return None


def _left_behind(wanted: Expectation, report: CallReport) -> dict[str, str]:
    """Settings that are not as they were, or not as the original leaves them, by name."""
    eager, found = wanted.eager.report, dict[str, str]()
    for setting, before in report.state_before.items():
        after = report.state_after.get(setting)
        if eager.state_before.get(setting) == eager.state_after.get(setting):
            if after != before and not (setting == _STREAM and wanted.random):
                found[setting] = f"it was {before} before the call and {after} after it"
        elif setting not in _POSITIONS and after != eager.state_after[setting]:
            found[setting] = f"the original leaves it at {eager.state_after[setting]}, it is {after}"
    return found
