"""A verdict: all findings, and the one outcome that they make. A pure function of the findings.

Identity before conformance, any failure before any doubt: ``semantic_drift``, ``conformance_failure``, ``undecided``,
``admitted``. A required check that gave no finding could not run, and that is a doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.trial import MAIN

# Checks whose failure means that the artifact is another program, or does not own up to what it is.
IDENTITY = ("identity", "manifest")


@dataclass(frozen=True)
class Verdict:
    """``kind`` is the outcome's kind: what the subject died of, or the first check that failed."""

    status: Status
    outcome: Outcome
    kind: str
    message: str
    findings: tuple[Finding, ...]

    def of_check(self, name: str) -> list[Finding]:
        """What one family said."""
        return [finding for finding in self.findings if finding.check_name == name]


def verdict_of(
    findings: Sequence[Finding], required: Sequence[str], death_kind: str = "", device: str = MAIN.device
) -> Verdict:
    """Compose. ``required`` are the checks that must have said something; ``death_kind`` is set where the subject did
    not get as far as giving values; ``device`` is the main session's, for which a check that said nothing waited."""
    if not any(finding.status is Status.FAIL for finding in findings):
        ran = {finding.check_name for finding in findings}
        absent = [name for name in required if name not in ran]
        silent = (Finding(name, name, Status.NOT_RUN, f"{name}: it did not run", device=device) for name in absent)
        findings = [*findings, *silent]
    causes = causes_of(findings)
    if not causes:
        return Verdict(Status.PASS, Outcome.ADMITTED, "", "", tuple(findings))
    if causes[0].status is not Status.FAIL:
        outcome, kind = Outcome.UNDECIDED, causes[0].status.value
    elif causes[0].check_name in IDENTITY:
        outcome, kind = Outcome.SEMANTIC_DRIFT, causes[0].what
    else:
        outcome, kind = Outcome.CONFORMANCE_FAILURE, death_kind or causes[0].check_name
    worst = worst_cause(causes)
    told = f"{worst.check_name}: {worst.message}{others(causes)}"
    return Verdict(causes[0].status, outcome, kind, told, tuple(findings))


def causes_of(findings: Sequence[Finding]) -> list[Finding]:
    """What keeps an artifact from being admitted: failures of identity, else any, else doubts; of those, what was
    looked at and could not be decided before what did not run. Empty where nothing does."""
    bad = [finding for finding in findings if finding.status is Status.FAIL]
    doubts = [finding for finding in findings if finding.required]
    return (
        [finding for finding in bad if finding.check_name in IDENTITY]
        or bad
        or [finding for finding in doubts if finding.status is Status.UNDECIDABLE]
        or [finding for finding in doubts if finding.status is Status.NOT_RUN]
    )


def worst_cause(causes: Sequence[Finding]) -> Finding:
    """Of the first check's: a wrong output explains gradients."""
    first = [finding for finding in causes if finding.check_name == causes[0].check_name]
    return max(first, key=lambda finding: finding.observed_over_limit)


def others(causes: Sequence[Finding]) -> str:
    """`` (and 2 more findings)``, empty where there is one cause."""
    return f" (and {len(causes) - 1} more findings)" if len(causes) > 1 else ""
