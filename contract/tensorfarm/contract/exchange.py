"""How a judge and a subject speak: files in one folder, written once each, tensors apart from JSON.

The judge writes ``request.json`` and ``inputs.tensors``. A subject, a process of its own for each session, leaves
``SESSION/outputs.tensors`` and then ``SESSION/report.json``. One that dies leaves no report. The judge reads nothing
else of it. Keys of tensors are ``TRIAL|CALL|KIND:NAME``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.regular_file import opened

REQUEST, REPORT, BEGUN = "request.json", "report.json", "begun"
INPUTS, OUTPUTS = "inputs.tensors", "outputs.tensors"


def tensor_key(trial: str, call: int, key: str) -> str:
    """Where a tensor of one call lies; ``key`` is ``input:NAME``, ``output:POSITION``, ``cotangent:POSITION`` …"""
    return f"{trial}|{call}|{key}"


@dataclass(frozen=True)
class CallRequest:
    """One call. ``cotangents`` are positions of outputs whose ``cotangent:POSITION`` lies in the file.

    ``derivative`` is empty for a forward pass, ``graph`` for one that could be differentiated, ``vjp``, ``vjp_of_vjp``
    or ``jvp``. ``between`` names the change that is made to the subject before this call. ``literals`` replace the
    example's leaves that are no tensors.
    """

    derivative: str = ""
    cotangents: tuple[int, ...] = ()
    between: str = ""
    seed: int = 0
    literals: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class TrialRequest:
    """Calls of one fresh subject, in order, in each of ``sessions``. ``variant`` is another form of the program."""

    name: str
    calls: tuple[CallRequest, ...]
    sessions: tuple[str, ...]
    variant: str = ""


@dataclass(frozen=True)
class SubjectRequest:
    """What to run. ``subject`` says what and how (``kind`` names the runner); ``leaves`` are the inputs in order, each
    with its literal where it is no tensor; ``in_spec`` is torch's serialised pytree spec of ``(args, kwargs)``.
    ``sessions`` has each one's ``device`` and number of ``threads``."""

    subject: Mapping[str, Any]
    mode: str
    leaves: tuple[Mapping[str, Any], ...]
    in_spec: str
    trials: tuple[TrialRequest, ...]
    sessions: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class CallReport:
    """What one call did, tensors apart. Positions are those of the flat outputs, as text.

    ``error`` and ``error_type`` are empty unless it raised; ``stage`` says in which part: forward or backward.
    ``left`` is what it put into the containers among its arguments, by place, as far as that is no tensor.
    ``aliases`` are pairs of keys whose tensors share a storage, ``overwritten`` keys of what it gave that later calls
    of its trial wrote to; ``touched`` is by key what changed of a parameter or an input's flags. ``state_before`` and
    ``state_after`` are ``process_state`` around the call; ``stream`` is a digest of the generator's state after it.
    """

    error: str = ""
    error_type: str = ""
    stage: str = ""
    structure: str = ""
    literals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    left: Mapping[str, Any] = field(default_factory=dict[str, Any])
    requires_grad: Mapping[str, bool] = field(default_factory=dict[str, bool])
    is_leaf: Mapping[str, bool] = field(default_factory=dict[str, bool])
    aliases: tuple[tuple[str, str], ...] = ()
    overwritten: tuple[str, ...] = ()
    touched: Mapping[str, str] = field(default_factory=dict[str, str])
    state_before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state_after: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stream: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class SubjectReport:
    """``error`` is empty unless nothing could be loaded; ``evidence`` is what the runtime says of itself (cache hits,
    misses, recompilations, graph breaks). ``calls`` holds each trial's reports in order."""

    error: str = ""
    artifact_sha256: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: Mapping[str, tuple[CallReport, ...]] = field(default_factory=dict[str, tuple[CallReport, ...]])
    seconds: float = 0.0


def write_request(folder: Path, request: SubjectRequest) -> None:
    # Not canonical: a literal may be infinite or no number, and is read back as it was.
    (folder / REQUEST).write_text(json.dumps(asdict(request), sort_keys=True))


def read_request(folder: Path) -> SubjectRequest:
    value: dict[str, Any] = json.loads((folder / REQUEST).read_text())
    trials = tuple(
        TrialRequest(
            item["name"],
            tuple(_call_request(call) for call in item["calls"]),
            tuple(item["sessions"]),
            item["variant"],
        )
        for item in value["trials"]
    )
    value |= {"leaves": tuple(value["leaves"]), "trials": trials}
    return SubjectRequest(**value)


def _call_request(value: Mapping[str, Any]) -> CallRequest:
    fields: dict[str, Any] = dict(value)
    fields["cotangents"] = tuple(value["cotangents"])
    return CallRequest(**fields)


def write_report(folder: Path, report: SubjectReport) -> None:
    """Written last and renamed into place: a report that exists is whole."""
    partial = folder / (REPORT + ".partial")
    partial.write_text(canonical_json(asdict(report)))
    partial.rename(folder / REPORT)


def read_report(folder: Path) -> SubjectReport | None:
    """The report, or None where the subject left none. Refuses one that is not in the agreed form."""
    try:
        with opened(folder / REPORT) as stream:
            value: dict[str, Any] = json.loads(stream.read())
        value["calls"] = {name: tuple(_call_report(item) for item in items) for name, items in value["calls"].items()}
        return SubjectReport(**value)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise Refusal(f"the subject's report is malformed: {error}", limit="what write_report writes") from None


def _call_report(value: Mapping[str, Any]) -> CallReport:
    fields: dict[str, Any] = dict(value)
    fields["aliases"] = tuple((str(left), str(right)) for left, right in value["aliases"])
    fields["overwritten"] = tuple(str(key) for key in value["overwritten"])
    return CallReport(**fields)
