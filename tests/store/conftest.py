"""A sweep in miniature: the events of two cells, one admitted and one refused, as the driver would record them.

The admitted cell is predicted, budgeted and compared with its baseline; the refused one is bisected.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tensorfarm.contract.events import (
    ArtifactAdmitted,
    BaselineAccepted,
    BisectionFinished,
    BisectionStarted,
    BudgetDeclared,
    CandidateCompiled,
    CandidateEnded,
    CandidateSubmitted,
    Compared,
    Event,
    GateDecided,
    Measured,
    PredictionMade,
    ProbeDecided,
    Recorded,
    RegressionConfirmed,
    RegressionFixed,
    RegressionNominated,
    SweepFinished,
    SweepStarted,
    recorded,
)
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.tables import PROJECTED

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
HASH = "5e" * 32
INFINITY = float("inf")


def finding(check: str, status: str, over: float) -> dict[str, object]:
    return {
        "check_name": check,
        "what": "output 0",
        "device": "cpu",
        "layout": "as_captured",
        "input_suite": "captured",
        "status": status,
        "message": "",
        "observed_over_limit": over,
        "digits": 6.5,
        "worst_index": [0, 3],
        "worst_expected": 1.5,
        "worst_seen": 1e-300,
        "limit_abs": 2e-6,
        "n_elements": 12,
        "n_bad": int(over > 1),
        "seed": 7,
        "wall_ns": 1_000,
    }


def measurement(variant: str, p50: float) -> dict[str, object]:
    samples = [p50 * 1.1, p50, p50 * 0.9]
    return {
        "metric": "step_seconds",
        "unit": "seconds",
        "variant": variant,
        "device": "cpu",
        "environment_id": "e0",
        "pair_id": 0,
        "position": 0,
        "warm": True,
        "samples": samples,
        "p10": min(samples),
        "p50": p50,
        "p90": max(samples),
        "pressure": 0.25,
    }


def manifest_entry(ordinal: int, name: str) -> dict[str, object]:
    return {
        "ordinal": ordinal,
        "kind": "pass",
        "name": name,
        "site": "",
        "decision": "applied",
        "reason": "",
        "numerics": "exact",
        "ir_hash_before": "aa",
        "ir_hash_after": "bb",
        "wall_ns": 5,
        "attributes": {"limit": "64"},
    }


def cell(sweep_id: str, name: str, *, admitted: bool) -> list[Event]:
    """Everything that happens to one cell. ``name`` is its subject; its candidate and bytes are named after it."""
    about = {"sweep_id": sweep_id, "subject": f"{name}/fx"}
    candidate, sha256 = f"candidate-{name}", f"artifact-{name}"
    known = {"candidate_id": candidate, "program": name, "backend": "fx", "pipeline": "fx:dce"}
    over = 0.25 if admitted else INFINITY
    outcome = "admitted" if admitted else "conformance_failure"
    made: list[Event] = [
        CandidateSubmitted(
            **about,
            **known,
            semantic_hash=HASH,
            input_spec_id="spec",
            mode="training",
            target="cpu/avx512",
            toolchain_id="t0",
            contract_id="default",
            contract_hash="c0",
            dtype="float32",
        ),
        CandidateCompiled(
            **about,
            candidate_id=candidate,
            semantic_hash=HASH,
            artifact_sha256=sha256,
            size_bytes=100,
            uri=f"built/{candidate}",
            compile_seconds=1.5,
            manifest=(manifest_entry(0, "dce"), manifest_entry(1, "cse")),
        ),
        GateDecided(
            **about,
            candidate_id=candidate,
            gate_run_id=f"gate-{name}",
            artifact_sha256=sha256,
            status="pass" if admitted else "fail",
            outcome=outcome,
            outcome_kind="",
            message="",
            gate_version="1",
            attestation="{}",
            seconds=0.5,
            findings=(finding("forward", "pass" if admitted else "fail", over), finding("gradient", "pass", 0.5)),
        ),
    ]
    if admitted:
        made += [
            ArtifactAdmitted(
                **about,
                candidate_id=candidate,
                semantic_hash=HASH,
                artifact_sha256=sha256,
                size_bytes=100,
                uri=f"artifacts/{sha256}",
                gate_run_id=f"gate-{name}",
            ),
            Measured(
                **about,
                candidate_id=candidate,
                artifact_sha256=sha256,
                seconds=2.0,
                measurements=(measurement("candidate", 0.5), measurement("eager", 1.0)),
                node_id="n0",
            ),
        ]
    return [*made, CandidateEnded(**about, **known, outcome=outcome, outcome_kind="", message="")]


def costs(sweep_id: str) -> list[Event]:
    """What cell alpha may cost, and what a model said of it; its upper end is infinite, as an untrained model's is."""
    step = PredictionMade(
        sweep_id,
        "alpha/fx",
        candidate_id="candidate-alpha",
        metric="step_seconds",
        checkpoint="lowered",
        predicted=0.45,
        lower=0.3,
        upper=INFINITY,
        model_id="model",
        peaks_id="peaks",
        features_hash="f0",
        out_of_distribution=True,
    )
    return [BudgetDeclared(sweep_id, "sweep", sweep_id, "compile_seconds", 60.0, 86_400), step]


def bisection(sweep_id: str) -> list[Event]:
    """How cell beta's failure is traced to a pass: two probes and a result."""
    cell, about = "beta/fx", {"bisection_id": "bisection-beta", "candidate_id": "candidate-beta"}
    probes = [
        ProbeDecided(
            sweep_id, cell, **about, step=step, round=1, axis="sites", probe=probe, outcome=outcome, message="",
            seconds=0.25, node_id="n0",
        )
        for step, (probe, outcome) in enumerate([("none", "good"), ("all", "bad")])
    ]  # fmt: skip
    started = BisectionStarted(sweep_id, cell, **about, backend="fx", n_sites=1, width=2, failure="{}")
    finished = BisectionFinished(
        sweep_id,
        cell,
        **about,
        status="confirmed",
        pass_name="cse",
        site="place",
        site_index=0,
        nodes=("add", "mul"),
        rounds=1,
        probes=2,
        seconds=0.5,
        reproducer="reproducers/beta/reproduce.py",
        reproduced=True,
        message="cse breaks it",
    )
    return [started, *probes, finished]


def regression(sweep_id: str) -> list[Event]:
    """Cell alpha gets slower than its baseline, which a paired measurement confirms, and is mended."""
    cell, paired = "alpha/fx", [measurement("candidate", 0.5), measurement("baseline", 0.4)]
    ran = {"candidate_id": "candidate-alpha", "artifact_sha256": "artifact-alpha", "baseline": "last_accepted"}
    about = {**ran, "baseline_artifact": "artifact-old", "metric": "step_seconds", "device": "cpu", "message": ""}
    ratio = {"ratio": 1.25, "ratio_lower": 1.2, "ratio_upper": 1.3, "smallest_detectable": 1.03}
    told = {"regression_id": f"regression-{sweep_id}", "workload": "alpha/fx:dce training cpu", **about, **ratio}
    suspected = told | {"ratio_lower": 0.0, "ratio_upper": INFINITY, "verdict": "inconclusive"}
    compared = {**about, **ratio, "verdict": "worse", "threshold": 1.05, "seconds": 2.0, "node_id": "n0"}
    rows = tuple(row | {"metric": "paired_step_seconds"} for row in paired)
    return [
        RegressionNominated(sweep_id, cell, **suspected),
        Compared(sweep_id, cell, **compared, measurements=rows),
        RegressionConfirmed(sweep_id, cell, **told, verdict="worse"),
        RegressionFixed(sweep_id, cell, **told, verdict="no_worse", culprit="cse"),
        BaselineAccepted(
            sweep_id,
            cell,
            workload=told["workload"],
            candidate_id="candidate-alpha",
            artifact_sha256="artifact-alpha",
            baseline="last_accepted",
            metric="step_seconds",
            by="sweep",
        ),
    ]


def sweep(sweep_id: str) -> list[Recorded]:
    """A whole sweep of two cells, one event a second."""
    about = {"sweep_id": sweep_id, "subject": "sweep"}
    happened: list[Event] = [
        SweepStarted(
            **about, name="mini", config="{}", config_sha256="c", target="cpu", toolchain_id="t0", toolchain="{}"
        ),
        *cell(sweep_id, "alpha", admitted=True),
        *cell(sweep_id, "beta", admitted=False),
        *costs(sweep_id),
        *bisection(sweep_id),
        *regression(sweep_id),
        SweepFinished(**about, exit_code=13, seconds=10.0),
    ]
    return [recorded(event, ts_us=START_US + number * SECOND_US) for number, event in enumerate(happened)]


EXPECTED_ROWS = {
    "events": lambda record: 1,
    "candidates": lambda record: int(record.type in ("CandidateSubmitted", "CandidateEnded")),
    "artifacts": lambda record: int(record.type in ("CandidateCompiled", "ArtifactAdmitted")),
    "manifests": lambda record: 2 * int(record.type == "CandidateCompiled"),
    "verdicts": lambda record: 2 * int(record.type == "GateDecided"),
    "measurements": lambda record: 2 * int(record.type in ("Measured", "Compared")),
    "predictions": lambda record: int(record.type == "PredictionMade"),
    "budgets": lambda record: int(record.type == "BudgetDeclared"),
    "bisect_steps": lambda record: int(record.type == "ProbeDecided"),
    "regressions": lambda record: int(record.type.startswith("Regression")),
}


def counted(reader: Reader) -> dict[str, dict[str, int]]:
    """How many rows each event has in each table."""
    return {
        name: {
            row["event_id"]: row["n"]
            for row in reader.query(f"select event_id, count(*) as n from {name} group by event_id").to_pylist()
        }
        for name in PROJECTED
    }


def due(records: list[Recorded]) -> dict[str, dict[str, int]]:
    """How many rows each event must have in each table, once."""
    return {
        name: {record.event_id: rows(record) for record in records if rows(record)}
        for name, rows in EXPECTED_ROWS.items()
    }


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout(tmp_path / "store").create()


@pytest.fixture(scope="session")
def sweep_events() -> Callable[[str], list[Recorded]]:
    """The events of a whole sweep of two cells, by its id."""
    return sweep


@pytest.fixture(scope="session")
def assert_exactly() -> Callable[[StoreLayout, list[Recorded]], None]:
    """Asserts that a store holds exactly these events, once each, in every table."""

    def check(layout: StoreLayout, records: list[Recorded]) -> None:
        with Reader(layout) as reader:
            assert counted(reader) == due(records)

    return check
