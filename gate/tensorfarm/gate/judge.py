"""The judge: the two steps of a gate run that happen in its own process, before and after the subject's.

``prepare`` proves identity and runs the oracle before anything of the candidate is loaded; ``decide`` reads what the
subject left and says what it is worth. Both are functions of one request and the files it names. Invariant: ``decide``
believes no file that a subject could have written, but for the answers it was asked for: the oracle's values are those
whose sha256 ``prepare`` returned.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from tensorfarm.contract.digest import canonical_json, sha256_json
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
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate import case as cases
from tensorfarm.gate import heap, witness
from tensorfarm.gate.case import CAPTURED, Case
from tensorfarm.gate.checks import capture, identity, loading, manifest
from tensorfarm.gate.devices import main_device
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import examined, proven, required_of
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle_file import Cotangents
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, Seal, install
from tensorfarm.gate.second_oracle import OPEN, with_tie_breaks
from tensorfarm.gate.step import FUNCTIONS
from tensorfarm.gate.trial import MAIN, Session
from tensorfarm.gate.verdict import Verdict, verdict_of

# A session's report and tensors, and why they cannot be read.
_Left = tuple[SubjectReport | None, dict[str, tuple[Observation, ...]] | None, str]


@cache
def gate_version() -> str:
    return cases.gate_version(torch.__version__)


def prepare(request: Mapping[str, Any]) -> dict[str, Any]:
    """First step. ``{"verdict": …}`` where identity is broken: no subject is to run then.

    Else what ``decide`` is to be told as ``request["before"]``: ``oracle_sha256``, the expectations' bytes; and
    ``sessions``, which processes are asked for beside the main one.
    """
    heap.keep_freed()
    case, seal, findings = _identified(request)
    barred = _barred(case, findings)
    if barred is not None:
        return {"verdict": _written(case, barred, seal)}
    started = time.perf_counter()
    cotangents, oracle_sha256, cached = case.oracle.kept(case.expectations)
    case.folder.mkdir(parents=True, exist_ok=True)
    _ask(case, cotangents)
    return {
        "oracle": case.oracle_key,
        "oracle_sha256": oracle_sha256,
        "cached": cached,
        "seconds": time.perf_counter() - started,
        "sessions": [
            {
                "name": session.name,
                "device": session.device,
                "threads": session.threads,
                "environment": session.environment,
            }
            for session in _sessions(case)[1:]
        ],
    }


def decide(request: Mapping[str, Any]) -> dict[str, Any]:
    """Last step: the verdict. ``request["before"]`` tells by step what the steps before returned, ``request["deaths"]``
    how a subject died."""
    case, seal, findings = _identified(request)
    barred = _barred(case, findings)
    if barred is not None:
        return _written(case, barred, seal)
    death = _placed(case, MAIN.name, dict(request.get("deaths") or {}).get(FUNCTIONS["run"]))
    left = {item.name: _left_behind(case, item.name) for item in _sessions(case)}
    report, seen, unreadable = left[MAIN.name]
    finding, kind = loading.check(case.artifact, report, death, unreadable)
    finding = finding.at(case.trials[death["trial"]]) if death and "trial" in death else finding
    findings += [finding, *_lost(case, left, request["before"])]
    if seen is not None and not kind:
        sha256 = request["before"][FUNCTIONS["prepare"]]["oracle_sha256"]
        expected = case.oracle.believed(sha256, case.expectations, _answered(left))
        unsteady = witness.unsteady(expected["example"])
        if unsteady:
            return _written(case, verdict_of([*findings, *unsteady], ()), seal, report)
        evidence = Evidence(case.setting, case.trials, expected, {name: item[1] or {} for name, item in left.items()})
        evidence, captured, found = _looked_at(case, evidence)
        findings += witness.unfit_answers(case.contract, expected["example"]) + captured
        findings += found if case.only else with_tie_breaks(found, evidence, case.reference.unwidened())
    main = main_device(case.contract)
    findings = [replace(item, device=main) if item.device == MAIN.device != main else item for item in findings]
    required = (loading.NAME, *required_of(case.setting))
    return _written(case, verdict_of(findings, required, kind), seal, report)


def _looked_at(case: Case, evidence: Evidence) -> tuple[Evidence, list[Finding], list[Finding]]:
    """What is said of the captured graph and of the subject, and the evidence for it.

    A first look has fewer samples. What does not pass then is no verdict yet: it is looked at with all of them.
    """
    captured, found = _captured(evidence), examined(evidence)
    open_ones = [item for item in captured + found if item.required and item.status in OPEN]
    if not open_ones:
        return evidence, captured, found
    expected = case.surer(frozenset(item.check_name for item in open_ones), evidence.expected)
    evidence = replace(evidence, expected=expected)
    return evidence, _captured(evidence), examined(evidence)


def _identified(request: Mapping[str, Any]) -> tuple[Case, Seal, list[Finding]]:
    """What both steps begin with: seal the process, read the case, look at the artifact's identity."""
    seal = install((*COMPILERS, *CODE_GENERATORS))
    case = Case.of(request, gate_version())
    torch.set_num_threads(case.threads)
    if case.artifact is None or case.program is None:
        return case, seal, []
    program, artifact = case.program, case.artifact
    findings = proven(
        lambda held: identity.check(program, held, case.rules), artifact, lambda: identity.canary(artifact)
    )
    return (
        case,
        seal,
        findings + proven(lambda held: manifest.check(program, held), artifact, lambda: manifest.canary(artifact)),
    )


def _barred(case: Case, findings: list[Finding]) -> Verdict | None:
    """The verdict where there is nothing to ask a subject: it is another program, or the contract is not about it."""
    if any(finding.status is Status.FAIL for finding in findings):
        return verdict_of(findings, ())
    outside = witness.unfit_inputs(case.setting) or witness.unfit_parameters(case.contract, case.parameter_dtypes)
    return verdict_of([*findings, *outside], ()) if outside else None


def _ask(case: Case, cotangents: Cotangents) -> None:
    tensors: dict[str, torch.Tensor] = {}
    trials: list[TrialRequest] = []
    for name, trial in case.trials.items():
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
    sessions = {item.name: {"device": item.device, "threads": item.threads} for item in _sessions(case)}
    subject = case.subject_with_state()
    write_request(case.folder, SubjectRequest(subject, case.mode, leaves, case.in_spec, tuple(trials), sessions))


def _sessions(case: Case) -> tuple[Session, ...]:
    """The main one, whose threads are the request's, and those that trials ask for."""
    main = replace(MAIN, device=main_device(case.contract), threads=case.threads)
    others = [item for trial in case.trials.values() for item in trial.sessions if item.name != MAIN.name]
    return (main, *dict.fromkeys(others))


def _left_behind(case: Case, session: str) -> _Left:
    """A session's report and tensors, and why they cannot be read: a subject may write anything."""
    folder = case.folder / session
    try:
        report = read_report(folder)
        if report is None or report.error:
            return report, None, ""
        return report, _observations(read_tensors(folder / OUTPUTS), report), ""
    except (Refusal, ValueError, TypeError, LookupError, AttributeError) as error:
        return None, None, f"{type(error).__name__}: {error}"


def _answered(left: Mapping[str, _Left]) -> Callable[[str, int], bool]:
    """Whether there is anything to compare with a call's expectation: some session gave an answer. The example's, and
    what capture is judged by, are looked at beside other calls."""
    answers = {
        (name, number)
        for _, seen, _ in left.values()
        for name, calls in (seen or {}).items()
        for number, call in enumerate(calls)
        if not call.report.error
    }
    return lambda name, number: name in ("example", CAPTURED) or (name, number) in answers


def _lost(case: Case, left: Mapping[str, _Left], before: Mapping[str, Any]) -> list[Finding]:
    """What the subject died of, or why it could not be loaded, in a session beside the main one."""
    deaths = before.get(FUNCTIONS["run_sessions"], {}).get("deaths", {})
    found: list[Finding] = []
    for session in _sessions(case)[1:]:
        report, _, unreadable = left[session.name]
        if report is not None or unreadable or session.name in deaths:
            death = _placed(case, session.name, deaths.get(session.name))
            finding = loading.check(None, report, death, unreadable)[0]
            found.append(replace(finding, what=f"subject in {session.name}", device=session.device))
    return [finding for finding in found if finding.status is Status.FAIL]


def _placed(case: Case, session: str, death: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """How a subject died, and in which call of which trial, as far as it left a trace that can be one."""
    begun = case.folder / session / BEGUN
    name, _, number = begun.read_text(errors="replace").partition("|") if death and begun.is_file() else ("", "", "")
    if death is None or name not in case.trials or not number.isdecimal():
        return death
    where = f" in call {int(number) + 1} of {len(case.trials[name].calls)} of trial {name}"
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


def _captured(evidence: Evidence) -> list[Finding]:
    """What capture made of the program, by the same families: the oracle's file holds what the captured graph gave."""
    if CAPTURED not in evidence.expected or (evidence.setting.only and capture.NAME not in evidence.setting.only):
        return []
    seen = tuple(item.eager for item in evidence.expected[CAPTURED])
    graph = replace(evidence, seen={MAIN.name: {"example": seen}}, trials={"example": evidence.trials["example"]})
    return proven(capture.check, graph, lambda: capture.canary(graph))


def _written(case: Case, verdict: Verdict, seal: Seal, report: SubjectReport | None = None) -> dict[str, Any]:
    attestation = {
        "seal": seal.evidence(),
        "isolation": "process",
        "level": case.level.name.lower(),
        "contract": case.contract.hash,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "node": platform.node(),
        "pid": os.getpid(),
        "subject": dict(report.evidence) if report else {},
    }
    subject = {key: value for key, value in case.subject.items() if key != "path"}
    run = {"candidate": case.candidate_id, "subject": subject, "oracle": case.oracle_key}
    return {
        "status": verdict.status.value,
        "outcome": verdict.outcome.value,
        "outcome_kind": verdict.kind,
        "message": verdict.message,
        "findings": [finding.row(case.seed) for finding in verdict.findings],
        "gate_version": gate_version(),
        "attestation": canonical_json(attestation),
        "gate_run_id": sha256_json({"format": "tensorfarm.gate-run/2", **run}),
    }
