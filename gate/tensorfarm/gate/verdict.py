"""A verdict: all findings, and the one outcome that they make. A pure function of the findings.

Identity before conformance, any failure before any doubt: ``semantic_drift``, ``conformance_failure``, ``undecided``,
``admitted``. A required check that gave no finding could not run, and that is a doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.finding import Finding

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


def verdict_of(findings: Sequence[Finding], required: Sequence[str], death_kind: str = "") -> Verdict:
    """Compose. ``required`` are the checks that must have said something; ``death_kind`` is set where the subject did
    not get as far as giving values."""
    bad = [finding for finding in findings if finding.status is Status.FAIL]
    drifted = [finding for finding in bad if finding.check_name in IDENTITY]
    if drifted:
        return _verdict(Status.FAIL, Outcome.SEMANTIC_DRIFT, drifted[0].what, drifted, findings)
    if bad:
        kind = death_kind or bad[0].check_name
        return _verdict(Status.FAIL, Outcome.CONFORMANCE_FAILURE, kind, bad, findings)
    ran = {finding.check_name for finding in findings}
    absent = [name for name in required if name not in ran]
    missing = [Finding(name, name, Status.NOT_RUN, f"{name}: it did not run") for name in absent]
    doubts = (Status.UNDECIDABLE, Status.NOT_RUN)
    doubtful = [*(finding for finding in findings if finding.status in doubts and finding.required), *missing]
    if doubtful:
        undecidable = [item for item in doubtful if item.status is Status.UNDECIDABLE]
        kind = "undecidable" if undecidable else "not_run"
        causes = undecidable or doubtful
        return _verdict(causes[0].status, Outcome.UNDECIDED, kind, causes, [*findings, *missing])
    return Verdict(Status.PASS, Outcome.ADMITTED, "", "", tuple(findings))


def _verdict(
    status: Status, outcome: Outcome, kind: str, causes: Sequence[Finding], findings: Sequence[Finding]
) -> Verdict:
    """The message names the worst finding of the first check among ``causes``: a wrong output explains gradients."""
    first = [finding for finding in causes if finding.check_name == causes[0].check_name]
    worst = max(first, key=lambda finding: finding.observed_over_limit)
    others = f" (and {len(causes) - 1} more findings)" if len(causes) > 1 else ""
    return Verdict(status, outcome, kind, f"{worst.check_name}: {worst.message}{others}", tuple(findings))
