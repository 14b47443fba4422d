"""Events of a small farm with costs and regressions in it, written to a real journal by the tests that read reports."""

from __future__ import annotations

import json
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

START_US = 1_780_000_000_000_000
SECOND_US = 1_000_000
DAY_SECONDS = 86_400
SWEEP = "nightly-1"
PIPELINE = "fx:dce"
TARGET = "cpu/planted"
CONFIG = {"programs": [{"name": name, "pipelines": [PIPELINE]} for name in ("fast", "slow", "broken")]}


def subject_of(program: str) -> str:
    return f"{program}/{PIPELINE}"


def candidate_of(program: str) -> str:
    return f"{program}-candidate".ljust(64, "0")


def artifact_of(program: str) -> str:
    return f"{program}-artifact".ljust(64, "0")


def write(layout: StoreLayout, *happened: tuple[float, e.Event]) -> None:
    """Record events, each so many seconds after the start."""
    journal = Journal(layout, claim_writer(layout))
    journal.append([e.recorded(event, ts_us=START_US + round(at * SECOND_US)) for at, event in happened])
    journal.close()


def started(sweep_id: str = SWEEP) -> e.Event:
    return e.SweepStarted(sweep_id, "sweep", "nightly", json.dumps(CONFIG), "c", TARGET, "t0", "{}")


def submitted(program: str, sweep_id: str = SWEEP, **changed: Any) -> e.Event:
    fields = {
        "candidate_id": candidate_of(program),
        "program": program,
        "semantic_hash": f"hash of {program}",
        "input_spec_id": "spec",
        "mode": "inference",
        "backend": "fx",
        "pipeline": PIPELINE,
        "target": TARGET,
        "toolchain_id": "t0",
        "contract_id": "float32",
        "contract_hash": "contract",
        "dtype": "float32",
    }
    return e.CandidateSubmitted(sweep_id, subject_of(program), **(fields | changed))


def compiled(program: str, seconds: float, sweep_id: str = SWEEP) -> e.Event:
    about = (candidate_of(program), f"hash of {program}", artifact_of(program), 100, "built/x", seconds)
    return e.CandidateCompiled(sweep_id, subject_of(program), *about)


def killed(program: str, seconds: float) -> e.Event:
    kind = ("compile_failure", "budget_exceeded", "over the budget")
    return e.CompileFailed(SWEEP, subject_of(program), candidate_of(program), *kind, seconds)


def judged(program: str, seconds: float, gate_version: str = "gate") -> e.Event:
    finding = {"check_name": "forward", "what": "output 0", "status": "pass", "observed_over_limit": 0.5}
    return e.GateDecided(
        SWEEP,
        subject_of(program),
        candidate_of(program),
        f"gate-{program}",
        artifact_of(program),
        "pass",
        "admitted",
        "",
        "",
        gate_version,
        "{}",
        seconds,
        (finding,),
    )


def admitted(program: str) -> e.Event:
    about = (candidate_of(program), f"hash of {program}", artifact_of(program), 100, "artifacts/x", f"gate-{program}")
    return e.ArtifactAdmitted(SWEEP, subject_of(program), *about)


def measured(program: str, eager: float, candidate: float, node_id: str = "host-a/1") -> e.Event:
    rows = tuple(
        {
            "metric": "step_seconds",
            "unit": "s",
            "variant": variant,
            "device": "cpu",
            "warm": True,
            "samples": [p50, p50],
            "p10": p50,
            "p50": p50,
            "p90": p50,
        }
        for variant, p50 in (("eager", eager), ("candidate", candidate))
    )
    return e.Measured(SWEEP, subject_of(program), candidate_of(program), artifact_of(program), 1.0, rows, node_id)


def ended(program: str, outcome: str = "admitted", kind: str = "") -> e.Event:
    about = (candidate_of(program), program, "fx", PIPELINE, outcome, kind, "")
    return e.CandidateEnded(SWEEP, subject_of(program), *about)


def predicted(program: str, metric: str, value: float, factor: float = 1.5, checkpoint: str = "captured") -> e.Event:
    """A prediction whose interval reaches from ``value`` ÷ ``factor`` to ``value`` × ``factor``."""
    interval = (value, value / factor, value * factor)
    ids = ("model-1", "peaks-1", "features")
    return e.PredictionMade(
        SWEEP,
        subject_of(program),
        candidate_of(program),
        metric,
        checkpoint,
        *interval,
        *ids,
        out_of_distribution=False,
    )


def finished() -> e.Event:
    return e.SweepFinished(SWEEP, "sweep", 11, 60.0)


def budget(metric: str, limit: float) -> e.Event:
    return e.BudgetDeclared(SWEEP, "sweep", SWEEP, metric, limit)


_STATES = {
    "nominated": e.RegressionNominated,
    "confirmed": e.RegressionConfirmed,
    "dismissed": e.RegressionDismissed,
    "fixed": e.RegressionFixed,
}


def regression(program: str, state: str, ratio: float, sweep_id: str = SWEEP) -> e.Event:
    return _STATES[state](
        sweep_id,
        subject_of(program),
        regression_id=f"regression-{program}",
        workload=f"{subject_of(program)} inference {TARGET}",
        candidate_id=candidate_of(program),
        artifact_sha256=artifact_of(program),
        baseline="last_accepted",
        baseline_artifact="older",
        metric="step_seconds",
        device="cpu",
        ratio=ratio,
        ratio_lower=ratio / 1.02,
        ratio_upper=ratio * 1.02,
        smallest_detectable=1.03,
        verdict="worse" if ratio > 1 else "no_worse",
        message=f"{state} at {ratio}",
    )


def a_sweep() -> list[tuple[float, e.Event]]:
    """Three cells: one pays, one is slower than eager, one is killed over its budget. Predictions come first."""
    return [
        (0, started()),
        (1, budget("compile_seconds", 20.0)),
        (1, budget("calls", 5_000.0)),
        *((2 + at, submitted(name)) for at, name in enumerate(("fast", "slow", "broken"))),
        (5, predicted("fast", "step_seconds", 0.0011)),
        (5, predicted("fast", "compile_seconds", 8.0)),
        (5, predicted("slow", "step_seconds", 0.004)),
        (20, compiled("fast", 10.0)),
        (21, compiled("slow", 18.0)),
        (22, killed("broken", 20.0)),
        (30, judged("fast", 2.0)),
        (31, judged("slow", 4.0)),
        (32, admitted("fast")),
        (32, admitted("slow")),
        (40, measured("fast", 0.003, 0.001)),
        (41, measured("slow", 0.002, 0.002)),
        (50, ended("fast")),
        (50, ended("slow")),
        (50, ended("broken", "compile_failure", "budget_exceeded")),
        (60, finished()),
    ]
