"""Calibrating a cost model: measure what the machine can do, fit what the sweeps measured on it, keep both.

Invariant: a model in the store says which peaks and how many samples it came from, and how it did on programs that it
had not seen.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tensorfarm.contract import events as e
from tensorfarm.contract.digest import finite
from tensorfarm.contract.refusal import Refusal
from tensorfarm.cost_model.calibrate import Calibration, CostModel, Sample
from tensorfarm.cost_model.compile_time import CompileSample
from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.farm.app.kept_model import newest_peaks
from tensorfarm.farm.app.pools import engine_config
from tensorfarm.farm.app.run_id import new_run_id
from tensorfarm.farm.engine.config import EngineConfig, RoleSpec
from tensorfarm.farm.engine.job import Job, JobResult, Step
from tensorfarm.farm.engine.pool import Engine
from tensorfarm.farm.engine.toolchain import this_toolchain
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal

DEVICES = ("cpu",)
_PEAKS = "tensorfarm.cost_model.peaks:measure_peaks"
_PEAKS_SECONDS, _PEAKS_BYTES = 300.0, 4 << 30
_ROLE = "meter"


@dataclass(frozen=True)
class Accuracy:
    """One kind of prediction. Errors and coverage are ratios on held-out programs, NaN where there were too few.

    ``interval`` is the factor by which the 90 % interval reaches up and down.
    """

    name: str
    programs: int
    median_error: float
    coverage: float
    interval: float


@dataclass(frozen=True)
class CalibrationReport:
    """What a calibration found and kept. ``peaks_seconds`` is 0 where the peaks were kept from an earlier one."""

    target: str
    peaks: Peaks
    peaks_seconds: float
    model: CostModel
    n_samples: int
    accuracy: Sequence[Accuracy]

    def as_json(self) -> dict[str, Any]:
        return finite(
            {
                "target": self.target,
                "peaks_id": self.peaks.id,
                "peaks": self.peaks.as_json(),
                "peaks_seconds": self.peaks_seconds,
                "model_id": self.model.id,
                "n_samples": self.n_samples,
                "accuracy": [asdict(item) for item in self.accuracy],
            }
        )


def calibrate(store: Path, device: str, *, refit: bool = False, address: str | None = None) -> CalibrationReport:
    """Measure peaks, or with ``refit`` keep the newest, and fit a model to what the store's sweeps measured.

    A store that is not there is made: peaks alone give a model too. Refuses a device that nothing is known of, and a
    refit without peaks of this version.
    """
    if device not in DEVICES:
        raise Refusal(
            f"device {device!r} cannot be calibrated",
            limit=f"known: {', '.join(DEVICES)}",
            next_step="name one of them with --device",
        )
    layout = StoreLayout(store.absolute())
    target = this_toolchain().target
    kept = None
    if refit:
        with Reader(layout) as reader:
            kept = newest_peaks(reader, target)
    layout.create()
    run_id = new_run_id("calibrate")
    with closing(Journal(layout, claim_writer(layout))) as journal:
        if kept is None:
            kept, result = measured_peaks(device, address)
            seconds = result.outcomes[-1].seconds
            _record(journal, e.PeaksMeasured(run_id, target, kept.id, kept.as_json(), seconds, result.node_id))
        else:
            seconds = 0.0
        with Reader(layout) as reader:
            samples, compiles = read_samples(reader, target)
        found = CostModel.fit(samples, kept, compiles)
        _record(journal, _calibrated(run_id, target, found, len(samples)))
    seal(layout)
    return CalibrationReport(target, kept, seconds, found.model, len(samples), _accuracy(found))


def read_samples(reader: Reader, target: str) -> tuple[list[Sample], list[CompileSample]]:
    """What the sweeps of this store measured on ``target``: steps, and compilations."""
    steps = [
        Sample(row["semantic_hash"], row["backend"], features, row["seconds"])
        for row in reader.named("cost_samples", target=target).to_pylist()
        if (features := _features(row["features"])) is not None
    ]
    compiles = [
        CompileSample(row["semantic_hash"], row["backend"], features, row["seconds"])
        for row in reader.named("cost_compilations", target=target).to_pylist()
        if (features := _features(row["features"])) is not None
    ]
    return steps, compiles


def _features(text: str) -> Features | None:
    """Features that an earlier version wrote in another form are no sample for this one."""
    try:
        return Features.from_json(json.loads(text))
    except (KeyError, ValueError):
        return None


def measured_peaks(device: str, address: str | None) -> tuple[Peaks, JobResult]:
    """Measure as a job of its own, alone on a bench node, with the thread that programs are measured with."""
    request = {"device": device, "python_path": []}
    steps = (Step(_ROLE, _PEAKS, request, _PEAKS_SECONDS, _PEAKS_BYTES),)
    with Engine.start(_bench_only(address)) as engine:
        engine.submit(Job(f"peaks:{device}", "bench", steps, exclusive=True))
        results: list[JobResult] = []
        while not results:
            results = engine.poll(0.2)
    result = results[0]
    last = result.outcomes[-1] if result.outcomes else None
    if last is None or not last.completed:
        raise Refusal(
            f"peaks could not be measured: {result.lost or (last.message if last else 'no answer')}",
            next_step='see "farm doctor", then run "farm calibrate" again',
            exit_code=16,
        )
    return Peaks.from_json(last.value["peaks"]), result


def _bench_only(address: str | None) -> EngineConfig:
    whole = engine_config(address)
    pools = tuple(pool for pool in whole.pools if pool.name == "bench")
    role = RoleSpec(preload=("torch", "tensorfarm.cost_model.peaks"))
    return replace(whole, pools=pools, roles={_ROLE: role})


def _calibrated(run_id: str, target: str, found: Calibration, n_samples: int) -> e.CostModelCalibrated:
    return e.CostModelCalibrated(
        run_id,
        target,
        model_id=found.model.id,
        peaks_id=found.model.peaks.id,
        n_samples=n_samples,
        median_error=found.held_out.median_error,
        coverage=found.held_out.coverage,
        model=found.model.as_json(),
    )


def _record(journal: Journal, event: e.Event) -> None:
    journal.append([e.recorded(event, ts_us=time.time_ns() // 1000)])


def _accuracy(found: Calibration) -> list[Accuracy]:
    fits = {**found.model.fits, **found.model.compile_time.fits}
    held_out = {**found.held_out_by, **found.compile_held_out_by}
    return [
        Accuracy(
            name if name in found.held_out_by else f"compile {name}",
            fits[name].n_programs,
            held.median_error,
            held.coverage,
            math.exp(fits[name].half_width),
        )
        for name, held in held_out.items()
    ]
