"""Why something that is known should be found out again: a set of reasons, never a boolean.

Each reason is something that a person can act on. Pure: facts in, reasons out; what is not known is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    TOOLCHAIN_CHANGED = "toolchain_changed"
    CONTRACT_CHANGED = "contract_changed"
    GATE_CHANGED = "gate_changed"
    PROGRAM_CHANGED = "program_changed"
    PASS_CHANGED = "pass_changed"
    MACHINE_CHANGED = "machine_changed"
    NEVER_ADMITTED = "never_admitted"
    ARTIFACT_MISSING = "artifact_missing"
    NEVER_MEASURED = "never_measured"
    MEASUREMENT_OLDER_THAN_LIMIT = "measurement_older_than_limit"
    BASELINE_MISSING = "baseline_missing"
    BASELINE_OLDER_THAN_LIMIT = "baseline_older_than_limit"
    MODEL_MISSING = "model_missing"
    MODEL_OLDER_THAN_LIMIT = "model_older_than_limit"


@dataclass(frozen=True)
class Identity:
    """What a result depends on. An empty field is not known. ``passes`` are digests of pass sources, by name."""

    program: str = ""
    contract: str = ""
    toolchain: str = ""
    gate: str = ""
    machine: str = ""
    passes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Ages:
    """Seconds since each was made; None where there is none."""

    measurement: float | None
    baseline: float | None
    model: float | None


@dataclass(frozen=True)
class AgeLimits:
    """Seconds after which a fact is stale."""

    measurement: float = 7 * 86_400.0
    baseline: float = 30 * 86_400.0
    model: float = 7 * 86_400.0


@dataclass(frozen=True)
class Facts:
    """A result as it was recorded, and the world as it is."""

    recorded: Identity
    current: Identity
    ages: Ages
    admitted: bool = True
    artifact_present: bool = True


_CHANGES = {
    "program": Reason.PROGRAM_CHANGED,
    "contract": Reason.CONTRACT_CHANGED,
    "toolchain": Reason.TOOLCHAIN_CHANGED,
    "gate": Reason.GATE_CHANGED,
    "machine": Reason.MACHINE_CHANGED,
    "passes": Reason.PASS_CHANGED,
}


def reasons(facts: Facts, limits: AgeLimits | None = None) -> frozenset[Reason]:
    """Every reason that holds; empty where the result is fresh. ``limits`` default to a week, a month for baselines."""
    limits = limits or AgeLimits()
    found = {reason for name, reason in _CHANGES.items() if _differs(facts, name)}
    if not facts.admitted:
        return frozenset(found | {Reason.NEVER_ADMITTED})
    if not facts.artifact_present:
        found.add(Reason.ARTIFACT_MISSING)
    ages = facts.ages
    for age, limit, missing, old in (
        (ages.measurement, limits.measurement, Reason.NEVER_MEASURED, Reason.MEASUREMENT_OLDER_THAN_LIMIT),
        (ages.baseline, limits.baseline, Reason.BASELINE_MISSING, Reason.BASELINE_OLDER_THAN_LIMIT),
        (ages.model, limits.model, Reason.MODEL_MISSING, Reason.MODEL_OLDER_THAN_LIMIT),
    ):
        if age is None:
            found.add(missing)
        elif age > limit:
            found.add(old)
    return frozenset(found)


def _differs(facts: Facts, name: str) -> bool:
    was, now = getattr(facts.recorded, name), getattr(facts.current, name)
    return bool(was) and bool(now) and was != now
