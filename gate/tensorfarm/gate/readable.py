"""A verdict for a person: the outcome first, then what is wrong, the worst of it on top, and how to see it again.

Invariant: nothing that failed is left out without being counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.attestation import IN_PLACE, Certificate
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.severity import Severity, Wrong, severity_of, worst_first
from tensorfarm.gate.verdict import causes_of, worst_cause

_MOST = 8  # findings that are spelt out
_INDENT = " " * 4


def readable(certificate: Certificate, reproduce: str = "", most: int = _MOST) -> str:
    """Several lines. ``reproduce`` is a command or a piece of Python that judges the same again."""
    wrong = worst_first(certificate.findings)
    lines = [headline(certificate), *summary(certificate)]
    for one in wrong[:most]:
        title = f"{one.severity.upper()} {one.finding.check_name}: {one.finding.what}"
        lines += ["", title, *_indented(details(one))]
    if len(wrong) > most:
        lines += ["", f"and {left_out(wrong[most:])}"]
    if reproduce:
        lines += ["", "to see it again:", *_indented(reproduce.splitlines())]
    return "\n".join(lines)


def left_out(wrong: Sequence[Wrong]) -> str:
    """``3 critical more: gradient 2, layouts 1``."""
    severities, checks = Counter[str](), Counter[str]()
    for one in wrong:
        severities[one.severity.value] += 1 + len(one.others)
        checks[one.finding.check_name] += 1 + len(one.others)
    return f"{_counted(severities)} more: " + ", ".join(f"{name} {count}" for name, count in checks.items())


def headline(certificate: Certificate) -> str:
    """``conformance_failure (forward): forward: output 0[3]: …``. What the original errs by comes with the details."""
    kind = f" ({certificate.kind})" if certificate.kind else ""
    told, causes = certificate.message, causes_of(certificate.findings)
    if causes:
        worst = worst_cause(causes)
        told = told.replace(f"; {worst.original_errs}", "") if worst.original_errs else told
    return f"{certificate.outcome}{kind}" + (f": {told}" if told else "")


def summary(certificate: Certificate) -> list[str]:
    """How many findings of which severity, and how they were come by."""
    found = certificate.findings
    rated = Counter(severity.value for finding in found if (severity := severity_of(finding)) is not None)
    passed = sum(finding.status is Status.PASS for finding in found)
    skipped = sum(finding.status is not Status.PASS and severity_of(finding) is None for finding in found)
    elements = sum(finding.n_elements for finding in found)
    told = certificate.attestation
    where = "in the caller's process" if told.get("isolation") == IN_PLACE else "in processes of its own"
    counts = [_counted(rated)] if rated else []
    counts += [f"{passed} passed ({elements:,} elements)"]
    counts += [f"{skipped} did not apply"] if skipped else []
    lines = [
        ", ".join(counts),
        f"level {certificate.level}, seed {certificate.seed}, contract {str(told.get('contract', ''))[:12]}, "
        f"torch {told.get('torch', '')}, judged {where}",
    ]
    return [*lines, *dict.fromkeys(finding.next_step for finding in found if _is_told_for_all(finding))]


def _is_told_for_all(finding: Finding) -> bool:
    """What to do about a failure is worth more than one finding's place: it may be among those that are left out."""
    return finding.status is Status.FAIL and bool(finding.next_step)


def details(wrong: Wrong) -> list[str]:
    """The worst element where there is one, else what happened; what the original errs by there; the limit; on which
    inputs it was; and what to do."""
    finding = wrong.finding
    lines = [_worst_element(finding) if finding.n_bad else finding.fact or finding.status.value]
    lines += [finding.original_errs] if finding.original_errs else []
    also = f"; the worst of {1 + len(wrong.others)} such inputs" if wrong.others else ""
    lines += [*_limit(finding), f"inputs: {inputs_of(finding)}{also}"]
    return [*lines, f"next: {finding.next_step}"] if finding.next_step and not _is_told_for_all(finding) else lines


def inputs_of(finding: Finding) -> str:
    """``suite special_values, layout transposed, on cpu/avx2``."""
    return f"suite {finding.input_suite}, layout {finding.layout}, on {finding.device}"


def _worst_element(finding: Finding) -> str:
    """``worst element [3, 5]: expected 0.731, seen 0.733, off by 0.002 = 812 × its limit``."""
    place = f" {list(finding.worst_index)}" if finding.worst_index else ""
    off = abs(finding.worst_seen - finding.worst_expected)
    far = f" = {finding.observed_over_limit:.3g} × its limit" if math.isfinite(finding.observed_over_limit) else ""
    return (
        f"worst element{place}: expected {finding.worst_expected:.9g}, seen {finding.worst_seen:.9g}, "
        f"off by {off:.3g}{far}"
    )


def _limit(finding: Finding) -> list[str]:
    if not finding.n_elements:
        return []
    sharp = f", which leaves {max(finding.digits, 0):.1f} decimal digits" if math.isfinite(finding.digits) else ""
    limit = f"limit {finding.limit_abs:.3g}{sharp}" if finding.limit_abs else "no error at all is allowed"
    return [f"{limit}; {finding.n_bad} of {finding.n_elements} elements are off"]


def _indented(lines: list[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]


def _counted(rated: Counter[str]) -> str:
    return ", ".join(f"{rated[severity.value]} {severity}" for severity in Severity if rated[severity.value])
