"""What the farm itself costs: driver, fold, journal and engine around stages that do nothing.

Goals: at least 60 % of the throughput of as many bare, unbatched Ray actor calls over the same actors and window; a
driver that grows by at most 100 MB for 100,000 candidates. ``--quick`` takes fewer of both.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import ray
from report import Goal, finish

from tensorfarm.contract import events as e
from tensorfarm.contract.digest import sha256_text
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.farm.app.driver import Driver
from tensorfarm.farm.app.jobs import stage_of, subject_of
from tensorfarm.farm.engine.config import EngineConfig, PoolSpec
from tensorfarm.farm.engine.job import Job, JobResult, encode_job
from tensorfarm.farm.engine.pool import Engine
from tensorfarm.farm.engine.simulated import SimulatedEngine
from tensorfarm.farm.engine.supervisor import NoopSupervisor
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.plan import Plan, PlannedProgram
from tensorfarm.farm.pipeline.state import SweepState
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

SLOTS, PIPELINES_PER_PROGRAM, STAGES_PER_CANDIDATE = 16, 50, 3
POOLS = ("compile", "gate", "bench")


@dataclass(frozen=True)
class NoopDesk:
    """Every stage succeeds at once; identities are hashed as in a real sweep."""

    sweep_id: str

    def job(self, command: c.JobCommand) -> Job:
        stage = stage_of(command)
        return Job(f"{stage}:{subject_of(command)}", c.POOL_OF[stage], ())

    def events_of(self, command: c.JobCommand, result: JobResult) -> Sequence[e.Event]:
        return [self.event_of(command, result)]

    def event_of(self, command: c.JobCommand, result: JobResult) -> e.Event:
        subject = subject_of(command)
        match command:
            case c.RunCapture(program):
                hashed = sha256_text(program.name)
                return e.ProgramCaptured(self.sweep_id, subject, "m:f", hashed, hashed, hashed, "float32", 1, 1, 0.0)
            case c.RunCompile(_, candidate_id, _, semantic_hash):
                artifact = sha256_text(candidate_id)
                return e.CandidateCompiled(self.sweep_id, subject, candidate_id, semantic_hash, artifact, 1, "", 0.0)
            case c.RunGate(_, candidate_id, _, _, artifact):
                return e.GateDecided(
                    self.sweep_id,
                    subject,
                    candidate_id,
                    "g",
                    artifact,
                    Status.PASS,
                    Outcome.ADMITTED,
                    "",
                    "",
                    "v",
                    "",
                    0.0,
                )
            case c.RunBench(_, candidate_id, _, artifact):
                return e.Measured(self.sweep_id, subject, candidate_id, artifact, 0.0)

    def perform(self, commands: Sequence[c.LocalCommand]) -> Iterable[e.Event]:
        for command in commands:
            match command:
                case c.Submit(cell, semantic_hash, spec, dtype):
                    yield e.CandidateSubmitted(
                        self.sweep_id, cell.id, sha256_text(cell.id), cell.program.name, semantic_hash, spec,
                        "training", cell.backend, cell.pipeline, "cpu", "t", "c", "h", dtype,
                    )  # fmt: skip
                case c.Admit(cell, candidate_id, semantic_hash, artifact, size, gate_run_id):
                    yield e.ArtifactAdmitted(
                        self.sweep_id, cell.id, candidate_id, semantic_hash, artifact, size, "uri", gate_run_id
                    )
                case c.Consider(cell, candidate_id, _, message):
                    yield e.CandidateEnded(
                        self.sweep_id, cell.id, candidate_id, cell.program.name, cell.backend, cell.pipeline,
                        Outcome.ADMITTED, "", message,
                    )  # fmt: skip
                case c.End(cell, candidate_id, outcome, kind, message):
                    yield e.CandidateEnded(
                        self.sweep_id, cell.id, candidate_id, cell.program.name, cell.backend, cell.pipeline,
                        outcome, kind, message,
                    )  # fmt: skip


def plan(n_candidates: int) -> Plan:
    pipelines = tuple(f"fx:noop{number}" for number in range(PIPELINES_PER_PROGRAM))
    programs = -(-n_candidates // PIPELINES_PER_PROGRAM)
    return Plan(tuple(PlannedProgram(f"p{number}", "m:f", "training", pipelines) for number in range(programs)))


def driven(n_candidates: int, runner: object, layout: StoreLayout, sweep_id: str) -> float:
    """Seconds for a driver to take ``n_candidates`` through all stages, every event journalled."""
    with closing(Journal(layout, claim_writer(layout))) as journal:
        driver = Driver(SweepState(plan(n_candidates), sweep_id), journal, NoopDesk(sweep_id))
        started = time.perf_counter()
        assert driver.run(runner)
        return time.perf_counter() - started


def bare(n_calls: int, engine: Engine) -> float:
    """Seconds for as many actor calls, one at a time in a window of all slots, each result fetched."""
    actors = [actor.handle for actor in engine._actors.values()]
    payload = encode_job(Job("compile:p0/fx:noop0", "compile", ()))
    started = time.perf_counter()
    flying, submitted = [], 0
    while submitted < n_calls or flying:
        while submitted < n_calls and len(flying) < SLOTS * len(actors):
            flying.append(actors[submitted % len(actors)].run.remote(payload))
            submitted += 1
        ready, flying = ray.wait(flying, num_returns=1)
        ray.get(ready)
    return time.perf_counter() - started


def throughput(n_candidates: int, rounds: int, folder: Path) -> tuple[list[float], list[float]]:
    """Calls a second of the engine and of bare calls, alternating."""
    pools = tuple(PoolSpec(name, f"farm_{name}", actors=1, slots=SLOTS, cores=1) for name in POOLS)
    n_calls = n_candidates * STAGES_PER_CANDIDATE
    ours, theirs = [], []
    with Engine.start(EngineConfig(pools, {}, cores_per_node=SLOTS * len(POOLS)), NoopSupervisor) as engine:
        while any(engine.capacity(name) < SLOTS for name in POOLS):
            engine.poll(0.1)
        bare(500, engine)
        for number in range(rounds):
            layout = StoreLayout(folder / f"round{number}").create()
            ours.append(n_calls / driven(n_candidates, engine, layout, f"round-{number}"))
            theirs.append(n_calls / bare(n_calls, engine))
    return ours, theirs


def growth_mb(n_candidates: int, folder: Path) -> float:
    """How much the driver's resident memory grows over an idle one's, in MB."""
    layout = StoreLayout(folder / "memory").create()
    engine = SimulatedEngine(lambda job: JobResult(job.job_id, (), "n0"), slots=64)
    driven(1000, engine, layout, "warm-up")
    gc.collect()
    process = psutil.Process()
    before, peak = process.memory_info().rss, 0
    with closing(Journal(layout, claim_writer(layout))) as journal:

        def watch(event: e.Event) -> None:
            nonlocal peak
            if isinstance(event, e.ProgramCaptured):
                peak = max(peak, process.memory_info().rss)

        state = SweepState(plan(n_candidates), "memory")
        assert Driver(state, journal, NoopDesk("memory"), watch=watch).run(engine)
        peak = max(peak, process.memory_info().rss)
    return (peak - before) / 1e6


def main() -> None:
    quick = "--quick" in sys.argv
    n_candidates, rounds, n_memory = (1000, 3, 20_000) if quick else (4000, 5, 100_000)
    with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as name:
        grown = growth_mb(n_memory, Path(name))
        ours, theirs = throughput(n_candidates, rounds, Path(name))
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    goals = [
        Goal("engine with no-op stages, share of bare actor calls", ">= 0.60", ratio, ratio >= 0.60),
        Goal(f"driver growth for {n_memory:,} candidates, MB", "<= 100", grown, grown <= 100),
    ]
    details = {"calls_per_second": ours, "bare_calls_per_second": theirs, "candidates": n_candidates, "quick": quick}
    finish("engine-quick" if quick else "engine", goals, details)


if __name__ == "__main__":
    main()
