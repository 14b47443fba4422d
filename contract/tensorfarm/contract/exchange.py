"""How a judge and a subject speak: files in one folder, written once each, tensors apart from JSON.

The judge writes ``request.json`` and ``inputs.tensors``; the subject, another process, writes ``outputs.tensors`` and
then ``report.json``. A subject that dies leaves no report. The judge reads nothing else of the subject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal

REQUEST, REPORT = "request.json", "report.json"
INPUTS, OUTPUTS = "inputs.tensors", "outputs.tensors"


@dataclass(frozen=True)
class SubjectRequest:
    """What to run. ``inputs.tensors`` holds ``input:NAME`` for each tensor input and ``cotangent:POSITION`` for each
    differentiable user output (absent in inference mode)."""

    artifact: str
    artifact_sha256: str
    candidate_id: str
    mode: str
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class SubjectReport:
    """What happened. ``outputs.tensors`` holds ``output:POSITION``, ``gradient:NAME`` (weight or input name),
    ``input:NAME`` and ``buffer:NAME`` as they are after the call. ``error`` is empty unless the subject raised.

    ``literals`` are non-tensor outputs by position; ``evidence`` what the runtime says of itself (cache hits, misses).
    """

    artifact_sha256: str
    error: str = ""
    requires_grad: Mapping[str, bool] = field(default_factory=dict[str, bool])
    literals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0


def write_request(folder: Path, request: SubjectRequest) -> None:
    (folder / REQUEST).write_text(canonical_json(asdict(request)))


def read_request(folder: Path) -> SubjectRequest:
    return SubjectRequest(**json.loads((folder / REQUEST).read_text()))


def write_report(folder: Path, report: SubjectReport) -> None:
    """Written last and renamed into place: a report that exists is whole."""
    partial = folder / (REPORT + ".partial")
    partial.write_text(canonical_json(asdict(report)))
    partial.rename(folder / REPORT)


def read_report(folder: Path) -> SubjectReport | None:
    """The report, or None where the subject left none. Refuses one that is not in the agreed form."""
    place = folder / REPORT
    if not place.is_file():
        return None
    try:
        return SubjectReport(**json.loads(place.read_text()))
    except (ValueError, TypeError) as error:
        raise Refusal(f"the subject's report is malformed: {error}", limit="what write_report writes") from None
