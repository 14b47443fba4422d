"""How well run times are predicted of programs that the model has not seen, on this machine.

Goals: median error at most 20 %, Kendall's τ at least 0.8, 90 % intervals that cover 85–95 %; over five folds of the
programs, with the factors, and the intervals, from the other four. Beside it in the same run, on the same folds: bytes
alone, and the formula that Inductor estimates by (the larger of flops over peak and bytes over memory bandwidth), both
fitted. Also: a whole family left out, and compile time. Programs are captured, compiled, loaded and measured by the
jobs of a sweep, less its gate. ``--quick`` takes every sixth program and Inductor for a few.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from population.families import NAMES, family_of
from report import Goal, finish
from scipy.stats import kendalltau

from tensorfarm.contract.digest import sha256_text
from tensorfarm.cost_model.calibrate import CostModel, Sample
from tensorfarm.cost_model.compile_time import CompileSample
from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.fit import Prediction
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.cost_model.roofline import rows_of
from tensorfarm.farm.app.calibration import measured_peaks
from tensorfarm.farm.app.jobs import BENCH, CAPTURE, COMPILE
from tensorfarm.farm.app.pools import engine_config
from tensorfarm.farm.engine.job import Job, Step
from tensorfarm.farm.engine.pool import Engine
from tensorfarm.farm.engine.toolchain import this_toolchain

MODE, N_FOLDS, PAIRS = "inference", 5, 6
FEWEST = 5  # programs that a line is fitted to
# Programs that have not begun by then are left out, Inductor's last.
BUDGET_SECONDS = 460.0
MEMORY_BYTES = 6 << 30
HERE = str(Path(__file__).resolve().parent)


@dataclass(frozen=True)
class Timed:
    """A program under a backend: what the model may know, and what was measured."""

    name: str
    sample: Sample


Predictor = Callable[[Sample], Prediction]
Fitter = Callable[[Sequence[Timed]], Predictor]


def step(role: str, function: str, seconds: float, **request: Any) -> tuple[Step, ...]:
    return (Step(role, function, {"python_path": [HERE], **request}, seconds, MEMORY_BYTES),)


def done(engine: Engine, jobs: Mapping[str, Job], until: float = float("inf")) -> dict[str, Mapping[str, Any]]:
    """Run all jobs; what each returned. One that failed is told and left out; none is begun after ``until``."""
    began = time.monotonic()
    found: dict[str, Mapping[str, Any]] = {}
    waiting = dict(jobs)
    running: dict[str, str] = {}
    while running or (waiting and time.monotonic() < until):
        for name in list(waiting) if time.monotonic() < until else ():
            if engine.capacity(waiting[name].pool) > 0:
                job = waiting.pop(name)
                running[job.job_id] = name
                engine.submit(job)
        for result in engine.poll(0.1):
            name = running.pop(result.job_id)
            last = result.outcomes[-1] if result.outcomes else None
            if last is not None and last.completed:
                found[name] = last.value
            else:
                print(f"{name}: {result.lost or (last.message if last else 'no answer')}", file=sys.stderr)
    kind = next(iter(jobs.values())).job_id.partition(":")[0] if jobs else "nothing"
    print(f"{kind}: {len(found)} of {len(jobs)} in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return found


def compiled(
    engine: Engine, folder: Path, captures: Mapping[str, Mapping[str, Any]], pipeline: str, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Compile programs; the request that each can be measured by, with ``built`` beside it."""
    requests = {
        name: {
            "program": str(folder / f"{captures[name]['program_sha256']}.program"),
            "program_sha256": captures[name]["program_sha256"],
            "candidate_id": sha256_text(f"{name} {pipeline}"),
            "semantic_hash": captures[name]["semantic_hash"],
            "mode": MODE,
        }
        for name in names
    }
    more = {"pipeline": pipeline, "target": this_toolchain().target, "toolchain": {}, "built": str(folder / "built")}
    jobs = {
        name: Job(f"compile:{name}/{pipeline}", "compile", step("worker", COMPILE, 600.0, **request, **more))
        for name, request in requests.items()
    }
    built = done(engine, jobs)
    return {
        name: {
            **requests[name],
            "artifact": answer["uri"],
            "artifact_sha256": answer["artifact_sha256"],
            "built": answer,
        }
        for name, answer in built.items()
    }


def measured(
    engine: Engine, pipeline: str, requests: Mapping[str, Mapping[str, Any]], until: float
) -> dict[str, dict[str, float]]:
    """Median seconds of a step by side, one program at a time with the machine to itself."""
    jobs = {
        name: Job(
            f"bench:{name}/{pipeline}",
            "bench",
            step("subject", BENCH, 300.0, **{**request, "built": None}, pairs=PAIRS, seed=0),
            exclusive=True,
        )
        for name, request in requests.items()
    }
    return {
        name: {row["variant"]: row["p50"] for row in answer["measurements"] if row["metric"] == "step_seconds"}
        for name, answer in done(engine, jobs, until).items()
    }


def collected(names: Sequence[str], fused: Sequence[str], folder: Path) -> tuple[list[Timed], list[CompileSample]]:
    """Capture, compile and measure: every program in eager and fx, those in ``fused`` under Inductor too."""
    began = time.monotonic()
    with Engine.start(engine_config(None)) as engine:
        capture = {"mode": MODE, "programs": str(folder)}
        jobs = {
            name: Job(
                f"capture:{name}",
                "compile",
                step("worker", CAPTURE, 300.0, source=f"population.families:{name}", **capture),
            )
            for name in names
        }
        captures = done(engine, jobs)
        by_pipeline = {
            pipeline: compiled(engine, folder, captures, pipeline, [name for name in chosen if name in captures])
            for pipeline, chosen in (("fx:cse,dce", names), ("inductor", fused))
        }
        until = began + BUDGET_SECONDS
        seconds = {pipeline: measured(engine, pipeline, requests, until) for pipeline, requests in by_pipeline.items()}
    timed: list[Timed] = []
    compiles: list[CompileSample] = []
    for pipeline, requests in by_pipeline.items():
        backend = pipeline.partition(":")[0]
        for name, request in requests.items():
            program, lowered = request["semantic_hash"], request["built"]["features"]
            features = Features.from_json(lowered["lowered"])
            compile_seconds = request["built"]["compile_seconds"]
            compiles.append(CompileSample(program, backend, features, compile_seconds))
            if name in seconds[pipeline]:
                timed.append(Timed(name, Sample(program, backend, features, seconds[pipeline][name]["candidate"])))
            if backend == "fx" and name in seconds[pipeline]:
                eager = Features.from_json(captures[name]["features"]["captured"])
                timed.append(Timed(name, Sample(program, "eager", eager, seconds[pipeline][name]["eager"])))
    return timed, compiles


def calibrated(peaks: Peaks) -> Fitter:
    return lambda known: _predictor(CostModel.fit([item.sample for item in known], peaks).model)


def _predictor(model: CostModel) -> Predictor:
    return lambda sample: model.predict(sample.features, sample.backend)


def log_linear(seconds_of: Callable[[Sample], float]) -> Fitter:
    """``a · x^b`` by backend, fitted to log seconds; over all backends for one with too few programs."""

    def fit(known: Sequence[Timed]) -> Predictor:
        def line(samples: Sequence[Sample]) -> Any:
            given = np.log([seconds_of(sample) for sample in samples])
            return np.polyfit(given, np.log([sample.seconds for sample in samples]), 1)

        whole = line([item.sample for item in known])
        by_backend: dict[str, list[Sample]] = {}
        for item in known:
            by_backend.setdefault(item.sample.backend, []).append(item.sample)
        lines = {backend: line(own) for backend, own in by_backend.items() if len(own) >= FEWEST}

        def predict(sample: Sample) -> Prediction:
            chosen = lines.get(sample.backend, whole)
            seconds = float(np.exp(np.polyval(chosen, np.log(seconds_of(sample)))))
            return Prediction(seconds, seconds, seconds, False)

        return predict

    return fit


def bytes_alone(sample: Sample) -> float:
    return 1.0 + sum(work.bytes_moved * count for work, count in rows_of(sample.features, sample.backend))


def inductor_formula(peaks: Peaks) -> Callable[[Sample], float]:
    most, memory = max(value for _, value in peaks.products), peaks.bandwidth[-1][1]

    def seconds(sample: Sample) -> float:
        rows = rows_of(sample.features, sample.backend)
        return 1e-9 + sum(count * max(work.flops / most, work.bytes_moved / memory) for work, count in rows)

    return seconds


def folds(timed: Sequence[Timed], part_of: Callable[[Timed], Any], fit: Fitter) -> Iterator[tuple[Timed, Prediction]]:
    """Each part predicted by a fit to the others."""
    for part in sorted({part_of(item) for item in timed}):
        predict = fit([item for item in timed if part_of(item) != part])
        yield from ((item, predict(item.sample)) for item in timed if part_of(item) == part)


def scores(pairs: Sequence[tuple[Timed, Prediction]]) -> dict[str, float]:
    seconds = np.array([item.sample.seconds for item, _ in pairs])
    predicted = np.array([prediction.predicted for _, prediction in pairs])
    error = np.abs(predicted / seconds - 1)
    inside = [prediction.lower <= item.sample.seconds <= prediction.upper for item, prediction in pairs]
    return {
        "n": len(pairs),
        "median_error": float(np.median(error)),
        "mean_error": float(error.mean()),
        "p90_error": float(np.quantile(error, 0.9)),
        "kendall_tau": float(kendalltau(seconds, predicted)[0]),
        "coverage": float(np.mean(inside)),
        "interval": float(np.median([prediction.upper / prediction.predicted for _, prediction in pairs])),
    }


def compared(timed: Sequence[Timed], peaks: Peaks) -> dict[str, dict[str, float]]:
    """Scores by method and backend."""
    programs = sorted({item.sample.program for item in timed})
    order = np.random.default_rng(0).permutation(len(programs))
    fold_of = {program: int(order[number]) % N_FOLDS for number, program in enumerate(programs)}
    methods: dict[str, tuple[Fitter, Callable[[Timed], Any]]] = {
        "calibrated": (calibrated(peaks), lambda item: fold_of[item.sample.program]),
        "calibrated, family left out": (calibrated(peaks), lambda item: family_of(item.name)),
        "bytes alone": (log_linear(bytes_alone), lambda item: fold_of[item.sample.program]),
        "Inductor's formula": (log_linear(inductor_formula(peaks)), lambda item: fold_of[item.sample.program]),
    }
    found: dict[str, dict[str, float]] = {}
    for name, (fit, part_of) in methods.items():
        pairs = list(folds(timed, part_of, fit))
        for backend in sorted({item.sample.backend for item in timed}):
            found[f"{name}: {backend}"] = scores([pair for pair in pairs if pair[0].sample.backend == backend])
        found[f"{name}: all"] = scores(pairs)
    prior = _predictor(CostModel.fit([], peaks).model)
    found["roofline alone: all"] = scores([(item, prior(item.sample)) for item in timed])
    return found


def main() -> None:
    quick = "--quick" in sys.argv
    names, fused = (NAMES[::6], NAMES[::42]) if quick else (NAMES, NAMES[::3])
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as folder:
        peaks, _ = measured_peaks("cpu", None)
        timed, compiles = collected(names, fused, Path(folder))
    table = compared(timed, peaks)
    compile_errors = CostModel.fit([], peaks, compiles).compile_held_out_by
    for name, row in table.items():
        print(f"{name:38} " + "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    for name, held in compile_errors.items():
        print(f"compile time {name:25} median_error {held.median_error:.3g}  coverage {held.coverage:.3g}")
    ours = table["calibrated: all"]
    goals = [
        Goal("programs", ">= 120", len({item.name for item in timed}), len({item.name for item in timed}) >= 120),
        Goal("median error on held-out programs", "<= 0.20", ours["median_error"], ours["median_error"] <= 0.20),
        Goal("Kendall's tau on held-out programs", ">= 0.80", ours["kendall_tau"], ours["kendall_tau"] >= 0.80),
        Goal("coverage of the 90 % interval", "0.85 to 0.95", ours["coverage"], 0.85 <= ours["coverage"] <= 0.95),
    ]
    details = {
        "scores": table,
        "compile_median_error": {name: held.median_error for name, held in compile_errors.items()},
        "peaks": peaks.as_json(),
        "steps": [[item.name, item.sample.backend, item.sample.seconds] for item in timed],
        "seconds": time.monotonic() - started,
        "quick": quick,
    }
    finish("cost-quick" if quick else "cost", goals, details)


if __name__ == "__main__":
    main()
