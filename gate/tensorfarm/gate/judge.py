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
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.digest import canonical_json, sha256_json, sha256_tree
from tensorfarm.contract.exchange import INPUTS, SubjectReport, SubjectRequest, read_report, write_request
from tensorfarm.contract.ir_contract import STRICT, IrContract
from tensorfarm.contract.numerics import NumericalContract, parse_contract
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.program import MODES, Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import write_tensors
from tensorfarm.gate.checks import forward, gradient, identity, integers, loading, metadata, mutation
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.observation import Observation, observed
from tensorfarm.gate.oracle import expectation_of
from tensorfarm.gate.oracle_file import OracleFile
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, Seal, install
from tensorfarm.gate.step import FUNCTIONS
from tensorfarm.gate.verdict import Verdict, verdict_of


@cache
def gate_version() -> str:
    """Changes with any line of the gate and with the torch that judges: an old expectation is then never read."""
    return f"gate/1+{sha256_tree(Path(__file__).parent)[:12]}+torch{torch.__version__}"


@dataclass(frozen=True)
class Case:
    """A judge's request, read: which artifact is judged against which program, by which contract.

    ``oracle_cache`` is a folder shared by the candidates of a program, or empty.
    """

    program_path: Path
    program_sha256: str
    artifact_path: Path
    artifact_sha256: str
    candidate_id: str
    semantic_hash: str
    mode: str
    contract: NumericalContract
    rules: IrContract
    folder: Path
    oracle_cache: str
    seed: int
    threads: int

    @staticmethod
    def of(request: Mapping[str, Any]) -> Case:
        """Refuses an unknown mode and an invalid contract."""
        if request["mode"] not in MODES:
            raise Refusal(f"mode {request['mode']!r} is unknown", limit=", ".join(MODES), next_step="correct the sweep")
        rules = request.get("ir_contract")
        return Case(
            program_path=Path(request["program"]),
            program_sha256=request["program_sha256"],
            artifact_path=Path(request["artifact"]),
            artifact_sha256=request["artifact_sha256"],
            candidate_id=request["candidate_id"],
            semantic_hash=request["semantic_hash"],
            mode=request["mode"],
            contract=parse_contract(request["contract"]),
            rules=STRICT if rules is None else IrContract.parse(rules),
            folder=Path(request["folder"]),
            oracle_cache=request.get("oracle_cache") or "",
            seed=int(request.get("seed", 0)),
            threads=int(request.get("threads", 1)),
        )

    @cached_property
    def program(self) -> Program:
        program = Program.load(self.program_path, self.program_sha256)
        if program.semantic_hash != self.semantic_hash:
            raise Refusal(
                f"program {self.program_path.name} is {program.semantic_hash[:12]}",
                limit=f"the candidate is of {self.semantic_hash[:12]}",
                next_step="submit the candidate again",
            )
        return program

    @cached_property
    def artifact(self) -> Artifact:
        return open_artifact(self.artifact_path, self.artifact_sha256)

    @property
    def oracle_key(self) -> str:
        return sha256_json(
            {
                "semantic_hash": self.semantic_hash,
                "contract": self.contract.hash,
                "input_spec_id": self.program.input_spec_id,
                "program": self.program_sha256,
                "seed": self.seed,
                "mode": self.mode,
                "gate": gate_version(),
            }
        )

    @property
    def oracle(self) -> OracleFile:
        folder = Path(self.oracle_cache) if self.oracle_cache else self.folder
        return OracleFile(folder / f"{self.oracle_key}.oracle", shared=bool(self.oracle_cache))

    def expectation(self) -> Expectation:
        """Run the oracle."""
        return expectation_of(self.program, self.contract, self.mode, self.seed)


def prepare(request: Mapping[str, Any]) -> dict[str, Any]:
    """First step. ``{"verdict": …}`` where identity is broken: no subject is to run then.

    Else what ``decide`` is to be told as ``request["before"]``: ``oracle_sha256``, the expectation's bytes.
    """
    case, seal, findings = _identified(request)
    if any(finding.status is Status.FAIL for finding in findings):
        return {"verdict": _written(case, verdict_of(findings, case.mode), seal)}
    started = time.perf_counter()
    expectation, oracle_sha256, cached = case.oracle.kept(case.expectation)
    inputs = {f"input:{name}": value for name, value in case.program.inputs.items()}
    inputs |= {f"cotangent:{position}": value for position, value in expectation.cotangents.items()}
    case.folder.mkdir(parents=True, exist_ok=True)
    write_tensors(case.folder / INPUTS, inputs)
    write_request(
        case.folder,
        SubjectRequest(
            artifact=str(case.artifact_path),
            artifact_sha256=case.artifact_sha256,
            candidate_id=case.candidate_id,
            mode=case.mode,
            threads=case.threads,
        ),
    )
    return {
        "oracle": case.oracle_key,
        "oracle_sha256": oracle_sha256,
        "cached": cached,
        "seconds": time.perf_counter() - started,
    }


def decide(request: Mapping[str, Any]) -> dict[str, Any]:
    """Last step: the verdict. ``request["before"]`` tells by step what ``prepare`` returned, ``request["deaths"]`` how
    a subject died."""
    case, seal, findings = _identified(request)
    if any(finding.status is Status.FAIL for finding in findings):
        return _written(case, verdict_of(findings, case.mode), seal)
    death = dict(request.get("deaths") or {}).get(FUNCTIONS["run"])
    report, seen, unreadable = _left_behind(case)
    started = time.perf_counter_ns()
    finding, kind = loading.check(case.artifact, report, death, unreadable)
    findings.append(replace(finding, wall_ns=time.perf_counter_ns() - started))
    if seen is not None and not kind:
        sha256 = request["before"][FUNCTIONS["prepare"]]["oracle_sha256"]
        findings += _values(case, case.oracle.believed(sha256, case.expectation), seen)
    return _written(case, verdict_of(findings, case.mode, kind), seal)


def _identified(request: Mapping[str, Any]) -> tuple[Case, Seal, list[Finding]]:
    """What both steps begin with: seal the process, read the case, look at the artifact's identity."""
    seal = install((*COMPILERS, *CODE_GENERATORS))
    case = Case.of(request)
    torch.set_num_threads(case.threads)
    return case, seal, _timed(lambda: identity.check(case.program, case.artifact, case.rules))


def _left_behind(case: Case) -> tuple[SubjectReport | None, Observation | None, str]:
    """The subject's report and tensors, and why they cannot be read: a subject may write anything."""
    try:
        report = read_report(case.folder)
        if report is None or report.error:
            return report, None, ""
        return report, observed(case.folder, report, case.artifact.graph, case.program.graph), ""
    except (Refusal, ValueError, TypeError, KeyError, AttributeError) as error:
        return None, None, f"{type(error).__name__}: {error}"


def _values(case: Case, expectation: Expectation, seen: Observation) -> list[Finding]:
    """Everything that compares what came out with what should have, cheapest first."""
    findings = _timed(lambda: metadata.check(expectation, seen))
    others = _timed(lambda: mutation.check(case.program, case.contract, expectation, seen))
    others += _timed(lambda: integers.check(case.contract, expectation, seen))
    findings += others + _timed(lambda: forward.check(case.contract, expectation, seen, others))
    if case.mode == "training":
        findings += _timed(lambda: gradient.check(case.program, case.contract, expectation, seen))
    return findings


def _timed(check: Callable[[], list[Finding]]) -> list[Finding]:
    """A check's findings, each with its share of the time."""
    started = time.perf_counter_ns()
    findings = check()
    each = (time.perf_counter_ns() - started) // max(len(findings), 1)
    return [replace(finding, wall_ns=each) for finding in findings]


def _written(case: Case, verdict: Verdict, seal: Seal) -> dict[str, Any]:
    attestation = {
        "seal": seal.evidence(),
        "oracle": case.oracle_key,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "node": platform.node(),
        "pid": os.getpid(),
    }
    run = {"candidate": case.candidate_id, "artifact": case.artifact_sha256, "oracle": case.oracle_key}
    return {
        "status": verdict.status.value,
        "outcome": verdict.outcome.value,
        "outcome_kind": verdict.kind,
        "message": verdict.message,
        "findings": [finding.row(case.seed) for finding in verdict.findings],
        "gate_version": gate_version(),
        "attestation": canonical_json(attestation),
        "gate_run_id": sha256_json({"format": "tensorfarm.gate-run/1", **run}),
    }
