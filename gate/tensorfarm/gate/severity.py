"""How bad a finding is for whoever ships the program.

Invariant: a wrong number, gradient or write that nobody is told of is never anything but critical.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.finding import Finding


class Severity(StrEnum):
    """``critical``: silently another value, gradient, write or program. ``major``: the next operator or the caller sees
    something else. ``minor``: a flag or a stride of an output alone. ``doubtful``: it could not be decided."""

    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"
    DOUBTFUL = "doubtful"


# Families whose failure is no silent wrong value by itself.
_MAJOR = frozenset({"errors", "process_state", "determinism", "batch_invariance", "metadata", "loading"})


def severity_of(finding: Finding) -> Severity | None:
    """None where nothing is wrong: it passed, or does not apply."""
    if finding.status is Status.PASS:
        return None
    if finding.status is not Status.FAIL:
        return Severity.DOUBTFUL if finding.required else None
    if finding.check_name not in _MAJOR:
        return Severity.CRITICAL
    return Severity.MINOR if finding.slight else Severity.MAJOR


@dataclass(frozen=True)
class Wrong:
    """What a check has against one thing: the worst finding of it, and those ``others`` that say the same of it on
    other inputs."""

    severity: Severity
    finding: Finding
    others: tuple[Finding, ...]


def worst_first(findings: Iterable[Finding]) -> list[Wrong]:
    """Everything that is wrong: by severity, then in the order of the checks, since a wrong output explains its
    gradients; of each check what is farthest over its limit first."""
    order, ranks = list(Severity), dict[str, int]()
    groups: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in findings:
        ranks.setdefault(finding.check_name, len(ranks))
        severity = severity_of(finding)
        if severity is not None:
            groups.setdefault((severity, finding.check_name, finding.what), []).append(finding)
    found: list[Wrong] = []
    for (severity, _, _), said in groups.items():
        worst, *others = sorted(said, key=lambda finding: -finding.observed_over_limit)
        found.append(Wrong(severity, worst, tuple(others)))
    return sorted(
        found,
        key=lambda one: (
            order.index(one.severity),
            ranks[one.finding.check_name],
            -one.finding.observed_over_limit,
        ),
    )
