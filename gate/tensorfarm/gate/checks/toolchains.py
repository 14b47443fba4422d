"""F13, toolchains: generated C++ compiled without optimisation, and by every other compiler that is here.

Undefined behaviour shows under one of them alone. Each is compared with the oracle: the code that the usual one makes
may be the wrong one.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.compared import agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import example
from tensorfarm.gate.planted import integer_step, past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Session, Trial

NAME, FAMILY, LEVEL, COST = "toolchains", "F13", Level.FULL, 90
KINDS = ("output", "gradient")
COMPILED = "compiled"
# Inductor reads both when it compiles: the first turns every optimisation off.
UNOPTIMISED = Session("toolchain:O0", environment={"TORCHINDUCTOR_DEBUG_COMPILE": "1"})
_OTHER_COMPILERS = ("clang++", "icpx")


def trials(setting: Setting) -> list[Trial]:
    sessions = sessions_for(setting)
    return [replace(example.trial(setting), sessions=(MAIN, *sessions))] if sessions else []


def sessions_for(setting: Setting) -> tuple[Session, ...]:
    """Empty for subjects that compile nothing in their process: their code is what it is."""
    if setting.facts.kind != COMPILED or not setting.facts.isolated:
        return ()
    others = (
        Session(f"toolchain:{name}", environment={"CXX": name}) for name in _OTHER_COMPILERS if shutil.which(name)
    )
    return UNOPTIMISED, *others


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient under each toolchain."""
    sessions = sessions_for(evidence.setting)
    if not sessions:
        return [inapplicable(NAME, "toolchains: the subject compiles nothing in a process of its own")]
    found = list[Finding]()
    for session in sessions:
        if not evidence.ran(example.NAME, session.name):
            message = f"{session.name}: the subject did not get that far there"
            found.append(Finding(NAME, session.name, Status.NOT_RUN, message))
            continue
        compared = walk(evidence, NAME, [example.NAME], lambda place: agreements(evidence, NAME, place, KINDS), session)
        found += [replace(item, what=f"{item.what} under {session.name}") for item in compared.settled()]
    return found


def canary(evidence: Evidence) -> Evidence | None:
    """One element past its limit under one toolchain alone."""
    for session in sessions_for(evidence.setting):
        for change in (past_its_limit(evidence.setting.contract), integer_step):
            changed = planted(evidence, [example.NAME], ("output",), change, session)
            if changed is not None:
                return changed
    return None
