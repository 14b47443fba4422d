"""How bad a finding is for whoever ships the program.

Invariant: a wrong number, gradient or write that nobody is told of is never anything but critical.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_MINOR_WORDS = ("expected strides", "expected is_leaf")


def severity_of(finding: Finding) -> Severity | None:
    """None where nothing is wrong: it passed, or does not apply."""
    if finding.status is Status.PASS:
        return None
    if finding.status is not Status.FAIL:
        return Severity.DOUBTFUL if finding.required else None
    if finding.check_name not in _MAJOR:
        return Severity.CRITICAL
    return Severity.MINOR if _is_minor(finding) else Severity.MAJOR


def _is_minor(finding: Finding) -> bool:
    """Metadata alone, and every difference that is named is one of strides or leaves."""
    if finding.check_name != "metadata":
        return False
    told = finding.message.removeprefix(f"{finding.what}: ").split("; ")
    return all(part.startswith(_MINOR_WORDS) for part in told)


def worst_first(findings: Iterable[Finding]) -> list[tuple[Severity, Finding]]:
    """Everything that is wrong: by severity, then by how far over its limit; in the order of the checks where alike."""
    rated = [(severity, finding) for finding in findings if (severity := severity_of(finding)) is not None]
    order = list(Severity)
    return sorted(rated, key=lambda item: (order.index(item[0]), -item[1].observed_over_limit))
