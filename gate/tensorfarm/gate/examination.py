"""All check families, found in their folder; what they ask for, and what they say of the evidence.

Invariant: a family's word counts only if, in the same run, it has failed a fault that was planted for it.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Protocol, TypeVar, cast

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import checks
from tensorfarm.gate.checks import liveness
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.inputs import example
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Derivative, Trial

# What a check looks at: evidence, or an artifact.
Looked = TypeVar("Looked")


class Family(Protocol):
    """One file of ``checks``. ``LEVEL`` is the lowest at which it runs; cheaper ones (``COST``) come first."""

    NAME: str
    FAMILY: str
    LEVEL: Level
    COST: int

    def trials(self, setting: Setting) -> list[Trial]: ...
    def check(self, evidence: Evidence) -> list[Finding]: ...
    def canary(self, evidence: Evidence) -> Evidence | None: ...


@cache
def families() -> tuple[Family, ...]:
    """Every family that judges evidence, cheapest first."""
    names = sorted(item.name for item in pkgutil.iter_modules(checks.__path__))
    modules = [importlib.import_module(f"{checks.__name__}.{name}") for name in names]
    found = [cast("Family", module) for module in modules if hasattr(module, "canary") and hasattr(module, "trials")]
    return tuple(sorted(found, key=lambda family: (family.COST, family.NAME)))


def families_at(level: Level, only: frozenset[str] = frozenset()) -> tuple[Family, ...]:
    return tuple(family for family in families() if level >= family.LEVEL and (not only or family.NAME in only))


def trials_of(setting: Setting) -> dict[str, Trial]:
    """What all families of the level ask for, by name, each once; a session that two ask for alike is one."""
    found = {example.NAME: example.trial(setting)}
    for family in families_at(setting.level, setting.only):
        for trial in family.trials(setting):
            known = found.get(trial.name)
            sessions = trial.sessions if known is None else tuple(dict.fromkeys((*known.sessions, *trial.sessions)))
            depth = trial.depth if known is None else max(known.depth, trial.depth)
            found[trial.name] = replace(known or trial, sessions=sessions, depth=depth)
    # Who counts its calls is asked for the second one while it is that, and not where only a NaN is looked for.
    found = dict(sorted(found.items(), key=lambda item: (item[0] != example.NAME, len(item[1].calls) == 1)))
    facts = setting.facts
    if setting.mode == "training" and facts.trainable and facts.fixed_shapes:
        return {name: _differentiable(trial) for name, trial in found.items()}
    return found


def _differentiable(trial: Trial) -> Trial:
    """What was built for training holds no code for a forward pass alone (Inductor would compile it anew)."""
    calls = tuple(
        replace(call, derivative=Derivative.GRAPH) if call.derivative is Derivative.NONE else call
        for call in trial.calls
    )
    return replace(trial, calls=calls)


def examined(evidence: Evidence) -> list[Finding]:
    """Every family's findings, and what became of every canary."""
    found: list[Finding] = []
    for family in families_at(evidence.setting.level, evidence.setting.only):
        found += proven(family.check, evidence, partial(family.canary, evidence))
    return found


def proven(check: Callable[[Looked], list[Finding]], at: Looked, canary: Callable[[], Looked | None]) -> list[Finding]:
    """What a check says of something, with its share of the time, and what became of its canary.

    It is alive where it has just failed something, or fails what was planted. Its word is taken back where it does not;
    where there is no place to plant in, there was nothing to compare either.
    """
    started = time.perf_counter_ns()
    said = check(at)
    alive = _alive(check, at, said, canary)
    each = (time.perf_counter_ns() - started) // max(len(said), 1)
    said = [replace(finding, wall_ns=each) for finding in said]
    told = liveness.findings({said[0].check_name: alive}) if said and not _silent(said) else []
    return [*(said if alive is not False else map(_unproven, said)), *told]


def _alive(
    check: Callable[[Looked], list[Finding]], at: Looked, said: Sequence[Finding], canary: Callable[[], Looked | None]
) -> bool | None:
    if any(finding.status is Status.FAIL for finding in said):
        return True
    planted = None if _silent(said) else canary()
    if planted is None:
        return None
    # Where the fault lies is looked at first, and the rest only if it did not show there.
    near = (_around(planted, at),) if isinstance(planted, Evidence) and isinstance(at, Evidence) else ()
    return any(finding.status is Status.FAIL for place in (*near, planted) for finding in check(cast("Looked", place)))


def _around(planted: Evidence, whole: Evidence) -> Evidence:
    """The planted evidence with the example's trial and those whose calls are other ones than in the whole."""
    before = {id(calls) for trials in whole.seen.values() for calls in trials.values()}
    other = {name for trials in planted.seen.values() for name, calls in trials.items() if id(calls) not in before}
    kept = {name: trial for name, trial in planted.trials.items() if name == example.NAME or name in other}
    return replace(planted, trials=kept)


def _silent(said: Sequence[Finding]) -> bool:
    return all(finding.status is Status.NOT_RUN for finding in said)


def _unproven(finding: Finding) -> Finding:
    if finding.status is Status.NOT_RUN:
        return finding
    message = f"{finding.what}: not believed, since {finding.check_name} let its own planted fault pass"
    unsaid = replace(finding, next_step="", original_errs="", slight=False)
    return replace(unsaid, status=Status.NOT_RUN, message=message)


def required_of(setting: Setting) -> tuple[str, ...]:
    """Families that must say something, if only that they do not apply."""
    asked = families_at(setting.level, setting.only)
    return tuple(family.NAME for family in asked if setting.mode == "training" or family.NAME != "gradient")
