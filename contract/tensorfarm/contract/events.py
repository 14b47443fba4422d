"""What can have happened, in the past tense. Events are the only source of truth; every table is derived from them.

An event is flat and versioned. Its envelope (``Recorded``) is what a journal stores: identity, writer, order, subject.
Adding a field with a default keeps the version; anything else takes a new version and a test that reads the old one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tensorfarm.contract.bisection_events import BisectionFinished, BisectionStarted, ProbeDecided
from tensorfarm.contract.cost_events import (
    BudgetDeclared,
    CostModelCalibrated,
    PeaksMeasured,
    PredictionMade,
    TaskRejected,
)
from tensorfarm.contract.digest import canonical_json, finite, sha256_json
from tensorfarm.contract.event import Event
from tensorfarm.contract.regression_events import (
    BaselineAccepted,
    Compared,
    RegressionConfirmed,
    RegressionDismissed,
    RegressionFixed,
    RegressionNominated,
)

RECOMPILE = "recompile"


@dataclass(frozen=True)
class SweepStarted(Event):
    """A sweep was asked for. ``config`` is the normalised sweep file; cells are a pure function of it."""

    name: str
    config: str
    config_sha256: str
    target: str
    toolchain_id: str
    toolchain: str


@dataclass(frozen=True)
class SweepInterrupted(Event):
    """A person or a signal stopped the driver; what was acknowledged stays."""

    reason: str


@dataclass(frozen=True)
class SweepFinished(Event):
    """Every cell has an outcome. ``seconds`` is the driver's wall time since it was last started."""

    exit_code: int
    seconds: float


@dataclass(frozen=True)
class ProgramCaptured(Event):
    """A program has an identity. ``program_sha256`` addresses the program file.

    ``features`` are what the cost model knows the captured graph by, its own JSON.
    """

    source: str
    semantic_hash: str
    input_spec_id: str
    program_sha256: str
    dtype: str
    n_nodes: int
    weight_bytes: int
    seconds: float
    node_id: str = ""
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class CaptureFailed(Event):
    """A program has no identity. Each of its cells ends with ``outcome``."""

    source: str
    outcome: str
    outcome_kind: str
    message: str
    seconds: float
    node_id: str = ""


@dataclass(frozen=True)
class CandidateSubmitted(Event):
    """A cell's candidate is known: program, contract, target, toolchain and pipeline all have identities."""

    candidate_id: str
    program: str
    semantic_hash: str
    input_spec_id: str
    mode: str
    backend: str
    pipeline: str
    target: str
    toolchain_id: str
    contract_id: str
    contract_hash: str
    dtype: str
    pass_digests: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class CandidateCompiled(Event):
    """An artifact exists. Says nothing about whether it is right. ``manifest`` rows are entries with ``wall_ns``.

    ``n_sites`` is the number of decisions that a bisection could switch; ``features`` are those of what was lowered.
    """

    candidate_id: str
    semantic_hash: str
    artifact_sha256: str
    size_bytes: int
    uri: str
    compile_seconds: float
    manifest: tuple[Mapping[str, Any], ...] = ()
    node_id: str = ""
    n_sites: int = 0
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class CompileFailed(Event):
    """This backend could not build it, or what it built is not what it was given (``semantic_drift``)."""

    candidate_id: str
    outcome: str
    outcome_kind: str
    message: str
    compile_seconds: float
    node_id: str = ""


@dataclass(frozen=True)
class GateDecided(Event):
    """The gate has a verdict on these bytes. ``findings`` are rows of the ``verdicts`` table."""

    candidate_id: str
    gate_run_id: str
    artifact_sha256: str
    status: str
    outcome: str
    outcome_kind: str
    message: str
    gate_version: str
    attestation: str
    seconds: float
    findings: tuple[Mapping[str, Any], ...] = ()
    node_id: str = ""


@dataclass(frozen=True)
class ArtifactAdmitted(Event):
    """The artifact cache took these bytes, because the gate run named here passed them."""

    candidate_id: str
    semantic_hash: str
    artifact_sha256: str
    size_bytes: int
    uri: str
    gate_run_id: str


@dataclass(frozen=True)
class CacheAnswered(Event):
    """An admitted artifact of an earlier sweep (``admitted_in``) answers this cell; nothing is built or judged again.

    ``measured`` says whether that artifact has measurements too; their rows are found by candidate and artifact.
    """

    candidate_id: str
    artifact_sha256: str
    gate_run_id: str
    admitted_in: str
    measured: bool


@dataclass(frozen=True)
class Measured(Event):
    """Samples of an admitted artifact and of eager, in run order. Rows of the ``measurements`` table."""

    candidate_id: str
    artifact_sha256: str
    seconds: float
    measurements: tuple[Mapping[str, Any], ...] = ()
    node_id: str = ""


@dataclass(frozen=True)
class MeasureFailed(Event):
    """The admitted artifact could not be measured. Its outcome stays, unless the kind is ``recompile``.

    Bytes that do not answer without a compiler are not what was gated: that artifact is revoked.
    """

    candidate_id: str
    artifact_sha256: str
    kind: str
    message: str
    seconds: float
    node_id: str = ""


@dataclass(frozen=True)
class JobLost(Event):
    """A node or an actor died under a job: infrastructure, never the compiler's fault. Retried, up to a limit."""

    stage: str
    reason: str
    node_id: str = ""


@dataclass(frozen=True)
class CandidateEnded(Event):
    """A cell has its one outcome. ``candidate_id`` is empty where capture gave no identity."""

    candidate_id: str
    program: str
    backend: str
    pipeline: str
    outcome: str
    outcome_kind: str
    message: str


TYPES: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        SweepStarted,
        SweepInterrupted,
        SweepFinished,
        ProgramCaptured,
        CaptureFailed,
        CandidateSubmitted,
        CandidateCompiled,
        CompileFailed,
        GateDecided,
        ArtifactAdmitted,
        CacheAnswered,
        Measured,
        MeasureFailed,
        JobLost,
        CandidateEnded,
        PeaksMeasured,
        CostModelCalibrated,
        PredictionMade,
        BudgetDeclared,
        TaskRejected,
        BisectionStarted,
        ProbeDecided,
        BisectionFinished,
        Compared,
        BaselineAccepted,
        RegressionNominated,
        RegressionConfirmed,
        RegressionDismissed,
        RegressionFixed,
    )
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as stored. ``ts_us`` is microseconds since the epoch, UTC; ``attempt`` counts retries of the same job.

    ``event_id`` is a hash of type, sweep, subject, attempt, ordinal and what tells such events apart: writing the same
    happening twice is one event.
    """

    event_id: str
    ts_us: int
    type: str
    version: int
    sweep_id: str
    attempt: int
    subject: str
    cause_id: str
    payload: str


def recorded(event: Event, *, ts_us: int, attempt: int = 0, cause_id: str = "", ordinal: int = 0) -> Recorded:
    """Wrap ``event`` for a journal. ``ordinal`` tells apart happenings that may rightly repeat (interruptions)."""
    name = type(event).__name__
    apart = [getattr(event, item) for item in event.told_apart_by]
    payload = {key: finite(value) for key, value in asdict(event).items() if key not in ("sweep_id", "subject")}
    return Recorded(
        event_id=sha256_json([name, event.sweep_id, event.subject, attempt, ordinal, *apart])[:32],
        ts_us=ts_us,
        type=name,
        version=event.version,
        sweep_id=event.sweep_id,
        attempt=attempt,
        subject=event.subject,
        cause_id=cause_id,
        payload=canonical_json(payload),
    )


def decoded(record: Recorded) -> Event:
    """The event inside ``record``. Raises KeyError on an unknown type; unknown payload fields are ignored.

    A float field is a float again, infinite or not; inside the rows of a field, infinities stay strings.
    """
    kind = TYPES[record.type]
    payload: dict[str, Any] = json.loads(record.payload)
    values = {item.name: _field(item.type, payload[item.name]) for item in fields(kind) if item.name in payload}
    return kind(sweep_id=record.sweep_id, subject=record.subject, **values)


def _field(declared: object, value: Any) -> Any:
    if declared == "float":
        return float(value)
    return tuple(value) if isinstance(value, list) else value
