"""Did the subject run what it was asked to, these bytes and nothing compiled on the way? Comes before any value.

How a subject died is a finding with the signal's name. An artifact carries its code; other subjects may compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.exchange import SubjectReport
from tensorfarm.contract.outcome import FailureKind, Status
from tensorfarm.gate.calling import RECOMPILE_BLOCKED
from tensorfarm.gate.finding import Finding, failed, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.setting import Level

NAME, FAMILY, LEVEL, COST = "loading", "F11", Level.QUICK, 2
RECOMPILE, ERROR = "recompile", "error"
_CACHE_MISS = "autograd_cache_miss"
ABSENT = "absent"  # its device is not on this machine: nothing is said of the subject
_OF_DEATH = {"timeout": FailureKind.TIMEOUT, "out_of_memory": FailureKind.OUT_OF_MEMORY}


def check(
    artifact: Artifact | None, report: SubjectReport | None, death: Mapping[str, Any] | None, unreadable: str
) -> tuple[Finding, str]:
    """The finding of one session, and the outcome's kind where it fails. ``artifact`` is None where none is judged."""
    if death is not None:
        told = death.get("message") or death.get("kind")
        if death.get("status") == "raised":
            return failed(NAME, "subject", str(told)), ERROR
        return failed(NAME, "subject", f"it died{death.get('where', '')}: {told}"), _OF_DEATH.get(
            str(death.get("kind")), FailureKind.CRASH
        ).value
    if unreadable:
        return failed(NAME, "subject", f"it left files that cannot be read: {unreadable}"), ERROR
    if report is None:
        return failed(NAME, "subject", "it left no report"), FailureKind.CRASH.value
    if report.evidence.get("error_kind") == ABSENT:
        return Finding(NAME, "subject", Status.NOT_RUN, f"subject: {report.error}"), ""
    if report.error:
        return failed(NAME, "subject", report.error), str(report.evidence.get("error_kind", ERROR))
    blocked = [call.error for call in report.calls.get(example.NAME, ()) if call.error_type == RECOMPILE_BLOCKED]
    if blocked:
        return failed(NAME, "subject", blocked[0]), RECOMPILE
    told = None if artifact is None else _other_code(artifact, report)
    if told:
        return failed(NAME, "subject", told[0]), told[1]
    return passed(NAME, "subject", sum(map(len, report.calls.values()))), ""


def canary(report: SubjectReport) -> SubjectReport:
    """The report of a subject that could not be loaded."""
    return replace(report, error="planted: it could not be loaded")


def _other_code(artifact: Artifact, report: SubjectReport) -> tuple[str, str] | None:
    """Why it was not the artifact's code that ran, and the outcome's kind."""
    if report.artifact_sha256 != artifact.sha256:
        return f"it ran {report.artifact_sha256[:12]}, not these bytes", ERROR
    # The cache was asked, and nothing compiled, where a call of another shape than the artifact's was refused.
    refused = sum(call.error_type == RECOMPILE_BLOCKED for calls in report.calls.values() for call in calls)
    counts = {name: count for name, count in report.evidence.items() if "_miss" in name}
    if counts.get(_CACHE_MISS, 0) <= refused:
        counts.pop(_CACHE_MISS, None)
    misses = [f"{name} {count}" for name, count in sorted(counts.items()) if count]
    if misses:
        return f"it compiled while loading: {', '.join(misses)}", RECOMPILE
    if artifact.runtime == "inductor" and report.calls and not report.evidence.get("autograd_cache_hit"):
        return "no compile cache answered, so other code than the artifact's ran", RECOMPILE
    return None
