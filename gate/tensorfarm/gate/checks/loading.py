"""Did the subject run these bytes, and nothing that was compiled on the way? Comes before any value is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.exchange import SubjectReport
from tensorfarm.contract.outcome import FailureKind
from tensorfarm.gate.finding import Finding, failed, passed

NAME = "loading"
RECOMPILE, ERROR = "recompile", "error"
_OF_DEATH = {"timeout": FailureKind.TIMEOUT, "out_of_memory": FailureKind.OUT_OF_MEMORY}


def check(
    artifact: Artifact, report: SubjectReport | None, death: Mapping[str, Any] | None, unreadable: str
) -> tuple[Finding, str]:
    """The finding, and the outcome's kind where it fails."""
    if death is not None:
        told = death.get("message") or death.get("kind")
        if death.get("status") == "raised":
            return failed(NAME, "subject", str(told)), ERROR
        return failed(NAME, "subject", f"it died: {told}"), _OF_DEATH.get(
            str(death.get("kind")), FailureKind.CRASH
        ).value
    if unreadable:
        return failed(NAME, "subject", f"it left files that cannot be read: {unreadable}"), ERROR
    if report is None:
        return failed(NAME, "subject", "it left no report"), FailureKind.CRASH.value
    if report.error:
        return failed(NAME, "subject", report.error), str(report.evidence.get("error_kind", ERROR))
    if report.artifact_sha256 != artifact.sha256:
        return failed(NAME, "subject", f"it ran {report.artifact_sha256[:12]}, not these bytes"), ERROR
    misses = [f"{name} {count}" for name, count in sorted(report.evidence.items()) if "_miss" in name and count]
    if misses:
        return failed(NAME, "subject", f"it compiled while loading: {', '.join(misses)}"), RECOMPILE
    if artifact.runtime == "inductor" and not report.evidence.get("autograd_cache_hit"):
        return failed(NAME, "subject", "no compile cache answered, so other code than the artifact's ran"), RECOMPILE
    return passed(NAME, "subject"), ""
