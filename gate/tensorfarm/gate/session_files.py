"""The files between a judge and the sessions of its subject: what each is asked, and what each has left.

Invariant: whatever a subject wrote is read as data, and what cannot be read is told; nothing of it is believed to be
more than an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from tensorfarm.contract.exchange import (
    BEGUN,
    INPUTS,
    OUTPUTS,
    CallRequest,
    SubjectReport,
    SubjectRequest,
    TrialRequest,
    read_report,
    tensor_key,
    write_request,
)
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.regular_file import opened
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate.case import Case
from tensorfarm.gate.devices import main_device
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle_file import Cotangents
from tensorfarm.gate.trial import MAIN, Session

_TRACE_BYTES = 1000


@dataclass(frozen=True)
class Left:
    """A session's report, and by trial what was seen of its calls; ``seen`` is None where it answered nothing,
    ``unreadable`` says why the files cannot be read."""

    report: SubjectReport | None
    seen: Mapping[str, tuple[Observation, ...]] | None
    unreadable: str = ""


def ask(case: Case, cotangents: Cotangents) -> None:
    """Write the request that all sessions read, and the tensors that it is about."""
    tensors: dict[str, torch.Tensor] = {}
    trials: list[TrialRequest] = []
    for name, trial in case.trials.items():
        if name not in cotangents:
            continue  # tentative, and the original does not answer it
        calls: list[CallRequest] = []
        for number, (call, vectors) in enumerate(zip(trial.calls, cotangents[name], strict=True)):
            given = {f"input:{key}": value for key, value in call.inputs.items()}
            given |= {f"cotangent:{position}": value for position, value in vectors.items()}
            tensors |= {tensor_key(name, number, key): value for key, value in given.items()}
            calls.append(CallRequest(call.derivative, tuple(vectors), call.between, call.seed, dict(call.literals)))
        trials.append(TrialRequest(name, tuple(calls), tuple(item.name for item in trial.sessions), trial.variant))
    leaves = tuple(
        {
            "name": leaf.name,
            "tensor": leaf.example is not None,
            "literal": leaf.literal,
            "requires_grad": leaf.requires_grad,
        }
        for leaf in case.setting.leaves
    )
    write_tensors(case.folder / INPUTS, tensors)
    sessions = {item.name: {"device": item.device, "threads": item.threads} for item in sessions_of(case)}
    subject = case.subject_with_state()
    write_request(case.folder, SubjectRequest(subject, case.mode, leaves, case.in_spec, tuple(trials), sessions))


def sessions_of(case: Case) -> tuple[Session, ...]:
    """The main one, whose threads are the request's, and those that trials ask for."""
    main = replace(MAIN, device=main_device(case.contract), threads=case.threads)
    others = [item for trial in case.trials.values() for item in trial.sessions if item.name != MAIN.name]
    return (main, *dict.fromkeys(others))


def left_behind(case: Case, session: str) -> Left:
    """What one session left: a subject may write anything."""
    folder = case.folder / session
    try:
        report = read_report(folder)
        if report is None or report.error:
            return Left(report, None)
        return Left(report, _observations(read_tensors(folder / OUTPUTS), report))
    except (Refusal, OSError, MemoryError, ValueError, TypeError, LookupError, AttributeError) as error:
        return Left(None, None, f"{type(error).__name__}: {error}")


def placed(case: Case, session: str, death: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """How a subject died, and in which call of which trial, as far as it left a trace that can be one."""
    try:
        with opened(case.folder / session / BEGUN) as stream:
            begun = stream.read(_TRACE_BYTES).decode(errors="replace")
    except OSError:
        begun = ""
    name, _, number = begun.partition("|")
    calls = range(len(case.trials[name].calls)) if name in case.trials else ()
    if death is None or number not in map(str, calls):
        return death
    where = f" in call {int(number) + 1} of {len(calls)} of trial {name}"
    return {**death, "where": where, "trial": name}


def _observations(tensors: Mapping[str, torch.Tensor], report: SubjectReport) -> dict[str, tuple[Observation, ...]]:
    parts: dict[tuple[str, int], dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        name, number, rest = key.split("|", 2)
        parts.setdefault((name, int(number)), {})[rest] = value
    return {
        name: tuple(Observation(parts.get((name, number), {}), call) for number, call in enumerate(calls))
        for name, calls in report.calls.items()
    }
