"""A farm's history, event by event, each a second after the last: what the exporter's queries are tried on."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

TARGET = "cpu/avx512"
TOOLCHAIN = "toolchain-of-today"
METRIC = "step_seconds"


def workload(subject: str) -> str:
    return f"{subject} inference {TARGET}"


class PlantedFarm:
    """Appends events to a real journal. Time stands at ``now_us``; ``pass_time`` moves it on."""

    def __init__(self, root: Path, began: float | None = None) -> None:
        self.layout = StoreLayout(root).create()
        self.now_us = int((time.time() if began is None else began) * 1e6)
        self._ordinal = 0

    def pass_time(self, seconds: float) -> None:
        self.now_us += int(seconds * 1e6)

    def tell(self, *events: e.Event) -> None:
        with closing(Journal(self.layout, claim_writer(self.layout))) as journal:
            for event in events:
                self._ordinal += 1
                journal.append([e.recorded(event, ts_us=self.now_us, ordinal=self._ordinal)])
                self.now_us += 1_000_000

    def start(
        self, sweep_id: str, *subjects: str, name: str = "nightly", toolchain_id: str = TOOLCHAIN, pairs: int = 12
    ) -> None:
        """A sweep begins, whose cells are ``subjects``; with 0 ``pairs`` it measures nothing."""
        programs: dict[str, list[str]] = {}
        for subject in subjects:
            program, _, pipeline = subject.partition("/")
            programs.setdefault(program, []).append(pipeline)
        config = {"programs": [_program(program, pipelines) for program, pipelines in programs.items()], "pairs": pairs}
        self.tell(
            e.SweepStarted(
                sweep_id,
                sweep_id,
                name=name,
                config=json.dumps(config),
                config_sha256="c",
                target=TARGET,
                toolchain_id=toolchain_id,
                toolchain="{}",
            )
        )

    def submit(self, sweep_id: str, subject: str, toolchain_id: str = TOOLCHAIN) -> None:
        about = _about(sweep_id, subject)
        self.tell(
            e.CandidateSubmitted(
                **about,
                **_known(subject),
                semantic_hash="hash",
                input_spec_id="spec",
                mode="inference",
                target=TARGET,
                toolchain_id=toolchain_id,
                contract_id="default",
                contract_hash="c0",
                dtype="float32",
            )
        )

    def compile(self, sweep_id: str, subject: str, seconds: float = 1.0) -> None:
        self.tell(
            e.CandidateCompiled(
                **_about(sweep_id, subject),
                candidate_id=_candidate(subject),
                semantic_hash="hash",
                artifact_sha256=f"{sweep_id}-{subject}",
                size_bytes=1,
                uri="built/x",
                compile_seconds=seconds,
            )
        )

    def admit(self, sweep_id: str, subject: str, *, gated: bool = True) -> None:
        """The cache takes the artifact; with ``gated`` false no gate has passed it."""
        about, run = _about(sweep_id, subject), f"gate-{sweep_id}-{subject}"
        known = {"candidate_id": _candidate(subject), "artifact_sha256": f"{sweep_id}-{subject}", "gate_run_id": run}
        if gated:
            self.tell(
                e.GateDecided(
                    **about,
                    **known,
                    status="pass",
                    outcome="admitted",
                    outcome_kind="",
                    message="",
                    gate_version="1",
                    attestation="{}",
                    seconds=0.1,
                )
            )
        self.tell(e.ArtifactAdmitted(**about, **known, semantic_hash="hash", size_bytes=1, uri="artifacts/x"))

    def measure(self, sweep_id: str, subject: str, p50: float = 0.5) -> None:
        row = {"metric": METRIC, "unit": "seconds", "variant": "candidate", "device": "cpu", "warm": True, "p50": p50}
        self.tell(
            e.Measured(
                **_about(sweep_id, subject),
                candidate_id=_candidate(subject),
                artifact_sha256=f"{sweep_id}-{subject}",
                seconds=1.0,
                measurements=(row,),
                node_id="n0",
            )
        )

    def end(self, sweep_id: str, subject: str, outcome: str) -> None:
        self.tell(e.CandidateEnded(**_about(sweep_id, subject), **_known(subject), **_ended(outcome)))

    def finish(self, sweep_id: str) -> None:
        self.tell(e.SweepFinished(sweep_id, sweep_id, exit_code=0, seconds=1.0))

    def whole_sweep(self, sweep_id: str, **outcomes: str) -> None:
        """A finished sweep over ``program/fx`` for every keyword; admitted cells are gated and measured."""
        self.start(sweep_id, *(f"{program}/fx" for program in outcomes))
        for program, outcome in outcomes.items():
            subject = f"{program}/fx"
            self.submit(sweep_id, subject)
            if outcome == "admitted":
                self.compile(sweep_id, subject)
                self.admit(sweep_id, subject)
                self.measure(sweep_id, subject)
            self.end(sweep_id, subject, outcome)
        self.finish(sweep_id)

    def regression(
        self, kind: str, subject: str = "mlp/fx", *, baseline: str = "last_accepted", sweep_id: str = "s1", **said: Any
    ) -> None:
        """``kind`` is Nominated, Confirmed, Dismissed or Fixed."""
        told = {"verdict": "worse", "ratio": 1.3, "ratio_lower": 1.25, "ratio_upper": 1.35} | said
        self.tell(
            getattr(e, f"Regression{kind}")(
                **_about(sweep_id, subject),
                regression_id=f"regression-{subject}-{baseline}",
                workload=workload(subject),
                candidate_id=_candidate(subject),
                artifact_sha256="new",
                baseline=baseline,
                baseline_artifact="old",
                metric=METRIC,
                device="cpu",
                smallest_detectable=1.02,
                message="",
                **told,
            )
        )

    def compared(
        self, sweep_id: str, subject: str, *, baseline: str = "last_accepted", lower: float = 0.99, noise: float = 1.02
    ) -> None:
        """A paired measurement; one that did not come about where ``lower`` is NaN."""
        self.tell(
            e.Compared(
                **_about(sweep_id, subject),
                candidate_id=_candidate(subject),
                artifact_sha256="new",
                baseline=baseline,
                baseline_artifact="old",
                metric=METRIC,
                device="cpu",
                verdict="inconclusive" if math.isnan(lower) else "no_worse",
                ratio=lower + 0.01,
                ratio_lower=0.0 if math.isnan(lower) else lower,
                ratio_upper=math.inf if math.isnan(lower) else lower + 0.02,
                smallest_detectable=math.inf if math.isnan(lower) else noise,
                threshold=0.05,
                message="",
                seconds=1.0,
            )
        )

    def accept(self, sweep_id: str, subject: str, baseline: str = "last_accepted") -> None:
        self.tell(
            e.BaselineAccepted(
                **_about(sweep_id, subject),
                workload=workload(subject),
                candidate_id=_candidate(subject),
                artifact_sha256="old",
                baseline=baseline,
                metric=METRIC,
                by="sweep",
            )
        )

    def budget(self, sweep_id: str, metric: str, limit: float, fresh_for_seconds: int = 0) -> None:
        self.tell(
            e.BudgetDeclared(
                sweep_id,
                sweep_id,
                scope=sweep_id,
                metric=metric,
                limit_value=limit,
                fresh_for_seconds=fresh_for_seconds,
            )
        )

    def predict(self, sweep_id: str, subject: str, seconds: float, model_id: str = "m0") -> None:
        self.tell(
            e.PredictionMade(
                **_about(sweep_id, subject),
                candidate_id=_candidate(subject),
                metric=METRIC,
                checkpoint="lowered",
                predicted=seconds,
                lower=seconds / 2,
                upper=seconds * 2,
                model_id=model_id,
                peaks_id="p0",
                features_hash="f0",
                out_of_distribution=False,
            )
        )

    def bisect(self, sweep_id: str, subject: str) -> None:
        """A bisection begins and decides one probe."""
        known = {**_about(sweep_id, subject), "bisection_id": f"b-{sweep_id}", "candidate_id": _candidate(subject)}
        self.tell(
            e.BisectionStarted(**known, backend="fx", n_sites=9, width=2, failure="{}"),
            e.ProbeDecided(
                **known, step=0, round=0, axis="prefix", probe="none", outcome="good", message="", seconds=1.0
            ),
        )

    def bisected(self, sweep_id: str, subject: str) -> None:
        self.tell(
            e.BisectionFinished(
                **_about(sweep_id, subject),
                bisection_id=f"b-{sweep_id}",
                candidate_id=_candidate(subject),
                status="confirmed",
                pass_name="cse",
                site="s",
                site_index=3,
                nodes=("add",),
                rounds=2,
                probes=4,
                seconds=2.0,
                reproducer="",
                reproduced=False,
                message="",
            )
        )


def _about(sweep_id: str, subject: str) -> dict[str, Any]:
    return {"sweep_id": sweep_id, "subject": subject}


def _candidate(subject: str) -> str:
    return f"candidate-{subject}"


def _known(subject: str) -> dict[str, Any]:
    program, _, pipeline = subject.partition("/")
    backend = pipeline.partition(":")[0]
    return {"candidate_id": _candidate(subject), "program": program, "backend": backend, "pipeline": pipeline}


def _ended(outcome: str) -> dict[str, Any]:
    return {"outcome": outcome, "outcome_kind": "", "message": ""}


def _program(name: str, pipelines: list[str]) -> dict[str, Any]:
    return {"name": name, "source": f"models:{name}", "mode": "inference", "pipelines": pipelines}
