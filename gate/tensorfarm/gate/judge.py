"""The judge: the two steps of a gate run that happen in its own process, before and after the subject's.

``prepare`` proves identity and runs the oracle before anything of the candidate is loaded; ``decide`` reads what the
subject left and says what it is worth. Both are functions of one request and the files it names. Invariant: ``decide``
believes no file that a subject could have written, but for the answers it was asked for: the oracle's values are those
whose sha256 ``prepare`` returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from tensorfarm.contract.digest import canonical_json, sha256_json
from tensorfarm.contract.exchange import SubjectReport
from tensorfarm.contract.outcome import Status
from tensorfarm.gate import heap, witness
from tensorfarm.gate.attestation import apart, gate_version
from tensorfarm.gate.case import CAPTURED, Case
from tensorfarm.gate.checks import capture, identity, loading, manifest
from tensorfarm.gate.devices import main_device
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import examined, proven, required_of
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, Seal, install
from tensorfarm.gate.second_oracle import OPEN, with_tie_breaks
from tensorfarm.gate.session_files import Left, ask, left_behind, placed, sessions_of
from tensorfarm.gate.step import FUNCTIONS
from tensorfarm.gate.trial import MAIN
from tensorfarm.gate.verdict import Verdict, verdict_of


def prepare(request: Mapping[str, Any]) -> dict[str, Any]:
    """First step. ``{"verdict": …}`` where identity is broken: no subject is to run then.

    Else what ``decide`` is to be told as ``request["before"]``: ``oracle_sha256``, the expectations' bytes; ``proofs``,
    what need not be read or hashed again; and ``sessions``, which processes are asked for beside the main one.
    """
    case, seal, findings = _identified(request)
    barred = _barred(case, findings)
    if barred is not None:
        return {"verdict": _written(case, barred, seal)}
    started = time.perf_counter()
    cotangents, oracle_sha256, cached = case.oracle.kept(case.expectations)
    case.folder.mkdir(parents=True, exist_ok=True)
    ask(case, cotangents)
    return {
        "oracle": case.oracle_key,
        "oracle_sha256": oracle_sha256,
        "proofs": case.proofs,
        "cached": cached,
        "seconds": time.perf_counter() - started,
        "sessions": [
            {
                "name": session.name,
                "device": session.device,
                "threads": session.threads,
                "environment": session.environment,
            }
            for session in sessions_of(case)[1:]
        ],
    }


def decide(request: Mapping[str, Any]) -> dict[str, Any]:
    """Last step: the verdict. ``request["before"]`` tells by step what the steps before returned, ``request["deaths"]``
    how a subject died."""
    prepared = dict(request["before"][FUNCTIONS["prepare"]])
    case, seal, findings = _identified(request, prepared.get("proofs"))
    barred = _barred(case, findings)
    if barred is not None:
        return _written(case, barred, seal)
    death = placed(case, MAIN.name, dict(request.get("deaths") or {}).get(FUNCTIONS["run"]))
    left = {item.name: left_behind(case, item.name) for item in sessions_of(case)}
    main = left[MAIN.name]
    finding, kind = loading.check(case.artifact, main.report, death, main.unreadable)
    finding = finding.at(case.trials[death["trial"]]) if death and "trial" in death else finding
    findings += [finding, *_lost(case, left, request["before"])]
    if main.seen is not None and not kind:
        expected = case.oracle.believed(prepared["oracle_sha256"], case.expectations, _answered(left))
        unfit = witness.unsteady(expected["example"]) or witness.compiling(expected["example"])
        if unfit:
            return _written(case, verdict_of([*findings, *unfit], ()), seal, main.report)
        seen = {name: item.seen or {} for name, item in left.items()}
        evidence = Evidence(case.setting, case.trials, expected, seen)
        evidence, captured, found = _looked_at(case, evidence)
        findings += witness.unfit_answers(case.contract, expected["example"]) + captured
        findings += found if case.only else with_tie_breaks(found, evidence, case.reference.unwidened())
    device = main_device(case.contract)
    findings = [replace(item, device=device) if item.device == MAIN.device != device else item for item in findings]
    required = (loading.NAME, *required_of(case.setting))
    return _written(case, verdict_of(findings, required, kind, device), seal, main.report)


def _looked_at(case: Case, evidence: Evidence) -> tuple[Evidence, list[Finding], list[Finding]]:
    """What is said of the captured graph and of the subject, and the evidence for it.

    A first look has fewer samples. What does not pass then is no verdict yet: it is looked at with all of them, unless
    it was.
    """
    captured, found = _captured(evidence), examined(evidence)
    open_ones = [item for item in captured + found if item.required and item.status in OPEN]
    if case.only or not open_ones:
        return evidence, captured, found
    expected = case.with_all_samples(frozenset(item.check_name for item in open_ones), evidence.expected)
    evidence = replace(evidence, expected=expected)
    return evidence, _captured(evidence), examined(evidence)


def _identified(
    request: Mapping[str, Any], proved: Mapping[str, Any] | None = None
) -> tuple[Case, Seal, list[Finding]]:
    """What both steps begin with: seal the process, read the case, look at the artifact's identity."""
    heap.prepared()
    seal = install((*COMPILERS, *CODE_GENERATORS))
    case = Case.of(request, gate_version(), proved)
    torch.set_num_threads(case.threads)
    if case.artifact is None or case.program is None:
        return case, seal, []
    program, artifact = case.program, case.artifact
    findings = proven(
        lambda held: identity.check(program, held, case.rules), artifact, lambda: identity.canary(artifact)
    )
    findings += proven(lambda held: manifest.check(program, held), artifact, lambda: manifest.canary(artifact))
    return case, seal, findings


def _barred(case: Case, findings: list[Finding]) -> Verdict | None:
    """The verdict where there is nothing to ask a subject: it is another program, or the contract is not about it."""
    if any(finding.status is Status.FAIL for finding in findings):
        return verdict_of(findings, ())
    outside = witness.unfit_inputs(case.setting) or witness.unfit_parameters(case.contract, case.parameter_dtypes)
    return verdict_of([*findings, *outside], ()) if outside else None


def _answered(left: Mapping[str, Left]) -> Callable[[str, int], bool]:
    """Whether there is anything to compare with a call's expectation: some session gave an answer. The example's, and
    what capture is judged by, are looked at beside other calls."""
    answers = {
        (name, number)
        for item in left.values()
        for name, calls in (item.seen or {}).items()
        for number, call in enumerate(calls)
        if not call.report.error
    }
    return lambda name, number: name in ("example", CAPTURED) or (name, number) in answers


def _lost(case: Case, left: Mapping[str, Left], before: Mapping[str, Any]) -> list[Finding]:
    """What the subject died of, or why it could not be loaded, in a session beside the main one."""
    deaths = before.get(FUNCTIONS["run_sessions"], {}).get("deaths", {})
    found: list[Finding] = []
    for session in sessions_of(case)[1:]:
        item = left[session.name]
        if item.report is not None or item.unreadable or session.name in deaths:
            death = placed(case, session.name, deaths.get(session.name))
            finding = loading.check(None, item.report, death, item.unreadable)[0]
            found.append(replace(finding, what=f"subject in {session.name}", device=session.device))
    return [finding for finding in found if finding.status is Status.FAIL]


def _captured(evidence: Evidence) -> list[Finding]:
    """What capture made of the program, by the same families: the oracle's file holds what the captured graph gave."""
    if CAPTURED not in evidence.expected or (evidence.setting.only and capture.NAME not in evidence.setting.only):
        return []
    seen = tuple(item.eager for item in evidence.expected[CAPTURED])
    graph = replace(evidence, seen={MAIN.name: {"example": seen}}, trials={"example": evidence.trials["example"]})
    return proven(capture.check, graph, lambda: capture.canary(graph))


def _written(case: Case, verdict: Verdict, seal: Seal, report: SubjectReport | None = None) -> dict[str, Any]:
    attestation = apart(case.contract, case.level, seal, report.evidence if report else {})
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
