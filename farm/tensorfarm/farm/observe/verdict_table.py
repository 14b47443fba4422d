"""A verdict on a screen: what is wrong, the worst first, and what each family looked at.

Invariant: every finding is counted in the table of families, also those that are not spelt out above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.readable import details, headline, left_out, summary
from tensorfarm.gate.severity import Severity, severity_of, worst_first

MOST_SPELT_OUT = 12
STYLES = {Severity.CRITICAL: "bold red", Severity.MAJOR: "red", Severity.MINOR: "yellow", Severity.DOUBTFUL: "cyan"}
FAMILY_COLUMNS = (
    "check",
    "passed",
    "failed",
    "doubtful",
    "did not apply",
    "elements",
    "error ÷ limit",
    "seconds",
)


@dataclass(frozen=True)
class Family:
    """What one check said, counted. ``worst`` is the largest error over its limit, ``seconds`` what looking took."""

    name: str
    passed: int
    failed: int
    doubtful: int
    inapplicable: int
    elements: int
    worst: float
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """The texts of ``FAMILY_COLUMNS``."""
        counts = (self.passed, self.failed, self.doubtful, self.inapplicable)
        worst = "∞" if math.isinf(self.worst) else f"{self.worst:.3g}" if self.worst else ""
        return (self.name, *(str(count or "") for count in counts), f"{self.elements:,}", worst, f"{self.seconds:.3f}")


def families_of(findings: Sequence[Finding]) -> list[Family]:
    """One for each check, in the order in which they ran."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        by_name.setdefault(finding.check_name, []).append(finding)
    return [_family(name, said) for name, said in by_name.items()]


def _family(name: str, said: Sequence[Finding]) -> Family:
    statuses = [finding.status for finding in said]
    doubtful = sum(severity_of(finding) is Severity.DOUBTFUL for finding in said)
    passed, failed = statuses.count(Status.PASS), statuses.count(Status.FAIL)
    return Family(
        name,
        passed,
        failed,
        doubtful,
        len(said) - passed - failed - doubtful,
        sum(finding.n_elements for finding in said),
        max(finding.observed_over_limit for finding in said),
        sum(finding.wall_ns for finding in said) / 1e9,
    )


def print_verdict(console: Console, title: str, certificate: Certificate, again: str) -> None:
    """``again`` is the command that judges the same once more."""
    style = "green" if not certificate.outcome.exit_code else "red"
    console.print(title, markup=False)
    console.print(headline(certificate), style=style, markup=False, soft_wrap=True)
    wrong = worst_first(certificate.findings)
    for one in wrong[:MOST_SPELT_OUT]:
        console.print()
        told = f" {one.finding.check_name}: {one.finding.what}"
        console.print(Text.assemble((one.severity.value, STYLES[one.severity]), told), soft_wrap=True)
        for text in details(one):
            console.print(f"    {text}", markup=False, soft_wrap=True)
    if len(wrong) > MOST_SPELT_OUT:
        left = left_out(wrong[MOST_SPELT_OUT:])
        console.print(f'\nand {left} ("--json" lists them)', markup=False, soft_wrap=True)
    console.print()
    console.print(_families(certificate))
    for line in summary(certificate):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"again: {again}", markup=False, soft_wrap=True)


def _families(certificate: Certificate) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in FAMILY_COLUMNS:
        table.add_column(heading, justify="left" if heading == "check" else "right")
    for family in families_of(certificate.findings):
        style = "red" if family.failed else "cyan" if family.doubtful else ""
        table.add_row(*(Text(cell, style=style) for cell in family.cells()))
    return table
