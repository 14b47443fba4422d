"""Capture is judged too: the captured graph, run as it is, is a candidate against the eager module.

Functionalisation and decomposition have faults of their own, and a compiler that is handed a wrong graph is right to
compile it. The evidence is that of a subject which is the captured graph itself.
"""

from __future__ import annotations

from dataclasses import replace

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.checks import errors, forward, gradient, integers, metadata, mutation
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, passed
from tensorfarm.gate.setting import Level

NAME, FAMILY, LEVEL, COST = "capture", "capture", Level.STANDARD, 20
_FAMILIES = (metadata, errors, mutation, integers, forward, gradient)


def check(evidence: Evidence) -> list[Finding]:
    """What the value families say of the captured graph, as findings of this check; what they leave open is not said
    twice: the same values are open for the candidate."""
    said = [finding for family in _FAMILIES for finding in family.check(evidence)]
    found = [
        replace(finding, check_name=NAME, what=f"captured graph: {finding.what}")
        for finding in said
        if finding.status is Status.FAIL
    ]
    compared = sum(finding.n_elements for finding in said if finding.status is Status.PASS)
    if found:
        return found
    if compared:
        return [passed(NAME, "captured graph", compared)]
    message = "captured graph: not one element of it could be compared"
    return [Finding(NAME, "captured graph", Status.NOT_RUN, message, required=False)]


def canary(evidence: Evidence) -> Evidence | None:
    """The smallest change of an output, or of an integer, that the value families must see."""
    return forward.canary(evidence) or integers.canary(evidence)
