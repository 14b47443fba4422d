"""Calibration: the roofline without samples, what was measured with many, and intervals that hold what they say."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.cost_model.calibrate import CostModel, Sample
from tensorfarm.cost_model.compile_time import CompileSample, CompileTime
from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.intervals import DEFAULT_HALF_WIDTH, half_width
from tensorfarm.cost_model.peaks import Peaks, measure_peaks, rate
from tensorfarm.cost_model.roofline import columns
from tensorfarm.cost_model.shrinkage import fit_toward

Moving = Callable[..., Features]


def analytic_seconds(features: Features, backend: str, peaks: Peaks) -> float:
    """The time by physics alone."""
    return float(columns(features, backend, peaks).sum())


def population(moving: Moving, peaks: Peaks, seed: int, *, factor: float = 1.0, noise: float = 0.1) -> list[Sample]:
    """Sixty programs of this machine, off by ``factor`` and by log-normal noise."""
    rng = np.random.default_rng(seed)
    samples: list[Sample] = []
    for number in range(60):
        size = int(10 ** rng.uniform(3, 7))
        features = moving(size, int(rng.integers(1, 9)), int(10 ** rng.uniform(4, 8)))
        seconds = factor * analytic_seconds(features, "fx", peaks) * math.exp(noise * rng.standard_normal())
        samples.append(Sample(f"program {number}", "fx", features, seconds))
    return samples


def test_bandwidth_that_falls_and_rises_again_is_uneven(peaks: Peaks) -> None:
    def uneven(*rates: float) -> bool:
        return replace(peaks, bandwidth=tuple((10.0**at, rate) for at, rate in enumerate(rates))).is_uneven

    assert not peaks.is_uneven
    assert not uneven(2, 10, 4, 10, 1)
    assert uneven(2, 10, 3, 10, 1)
    assert not uneven(1, 10, 1)


def test_without_samples_the_model_is_the_roofline(moving: Moving, peaks: Peaks) -> None:
    model = CostModel.fit([], peaks).model
    for backend in ("eager", "fx", "inductor"):
        found = model.predict(moving(1 << 20, 3), backend)
        assert found.predicted == pytest.approx(analytic_seconds(moving(1 << 20, 3), backend, peaks))
        assert found.out_of_distribution
        assert found.upper / found.predicted == pytest.approx(math.exp(DEFAULT_HALF_WIDTH))


def test_more_bytes_never_take_less_time(moving: Moving, peaks: Peaks) -> None:
    for samples in ([], population(moving, peaks, 1, factor=3.0)):
        model = CostModel.fit(samples, peaks).model
        seconds = [model.predict(moving(1 << power), "fx").predicted for power in range(8, 30)]
        assert seconds == sorted(seconds)


def test_a_machine_that_is_thrice_as_slow_as_its_peaks_is_learnt(moving: Moving, peaks: Peaks) -> None:
    model = CostModel.fit(population(moving, peaks, 2, factor=3.0, noise=0.02), peaks).model
    fresh = population(moving, peaks, 3, factor=3.0, noise=0.0)
    errors = [abs(math.log(model.predict(item.features, "fx").predicted / item.seconds)) for item in fresh]
    assert float(np.median(errors)) < 0.1


def test_one_cause_that_is_off_is_corrected_and_the_others_are_left(moving: Moving, peaks: Peaks) -> None:
    def truth(features: Features) -> float:
        slow_dispatch = dict.fromkeys(peaks.dispatch_seconds, 3e-6)
        off = Peaks.from_json({**peaks.as_json(), "dispatch_seconds": slow_dispatch})
        return analytic_seconds(features, "fx", off)

    samples = [Sample(item.program, "fx", item.features, truth(item.features)) for item in population(moving, peaks, 4)]
    model = CostModel.fit(samples, peaks).model
    small, large = moving(64, 8), moving(1 << 26, 1)
    assert model.predict(small, "fx").predicted == pytest.approx(truth(small), rel=0.2)
    assert model.predict(large, "fx").predicted == pytest.approx(truth(large), rel=0.2)


def test_intervals_cover_nine_in_ten_of_programs_never_seen(moving: Moving, peaks: Peaks) -> None:
    within = total = 0
    for seed in range(5):
        model = CostModel.fit(population(moving, peaks, seed, noise=0.3), peaks).model
        for item in population(moving, peaks, 100 + seed, noise=0.3):
            found = model.predict(item.features, "fx")
            within += found.lower <= item.seconds <= found.upper
            total += 1
    assert 0.84 <= within / total <= 0.97


def test_held_out_error_and_coverage_are_those_of_programs_not_seen(moving: Moving, peaks: Peaks) -> None:
    held = CostModel.fit(population(moving, peaks, 5, noise=0.2), peaks).held_out
    assert held.n_programs == 60
    assert 0.05 < held.median_error < 0.3
    assert 0.8 <= held.coverage <= 1.0
    assert math.isnan(CostModel.fit([], peaks).held_out.median_error)


def test_a_backend_without_samples_borrows_from_its_like(moving: Moving, peaks: Peaks) -> None:
    model = CostModel.fit(population(moving, peaks, 6, factor=4.0, noise=0.02), peaks).model
    features = moving(1 << 16, 4)
    assert model.predict(features, "eager").predicted == pytest.approx(model.predict(features, "fx").predicted, rel=0.2)
    assert model.predict(features, "inductor").out_of_distribution


def test_what_is_far_from_all_samples_is_marked_and_has_a_wide_interval(moving: Moving, peaks: Peaks) -> None:
    model = CostModel.fit(population(moving, peaks, 7, noise=0.01), peaks).model
    usual, odd = model.predict(moving(1 << 16, 2, 1 << 20), "fx"), model.predict(moving(1 << 34), "fx")
    assert not usual.out_of_distribution
    assert odd.out_of_distribution
    assert odd.upper / odd.predicted >= 3.0 > usual.upper / usual.predicted


def test_peaks_and_models_travel_through_json(moving: Moving, peaks: Peaks) -> None:
    sent = json.loads(json.dumps(peaks.as_json()))
    assert Peaks.from_json(sent) == peaks
    compiles = [CompileSample(f"p{n}", "inductor", moving(1024, n + 1), 3.0 + n) for n in range(8)]
    model = CostModel.fit(population(moving, peaks, 8), peaks, compiles).model
    read = CostModel.from_json(json.loads(json.dumps(model.as_json())))
    assert read == model
    assert read.id == model.id
    assert Peaks.from_json(sent).id == peaks.id


def test_another_format_is_refused(peaks: Peaks) -> None:
    with pytest.raises(ValueError, match="format"):
        Peaks.from_json({**peaks.as_json(), "format": "tensorfarm.peaks/0"})
    model = CostModel.fit([], peaks).model
    with pytest.raises(ValueError, match="columns"):
        CostModel.from_json({**model.as_json(), "columns": ["other"]})


def test_compile_time_follows_the_groups_that_kernels_are_made_of(moving: Moving) -> None:
    samples = [
        CompileSample(f"p{number}", "inductor", moving(1024, number), 2.0 + 0.7 * number) for number in range(1, 41)
    ]
    model, held = CompileTime.fit(samples)
    assert model.predict(moving(1024, 20), "inductor").predicted == pytest.approx(16.0, rel=0.15)
    assert held["inductor"].median_error < 0.1
    unknown = CompileTime({}).predict(moving(1024), "fx")
    assert unknown.out_of_distribution
    assert unknown.lower < unknown.predicted < unknown.upper


def test_peaks_of_this_machine_are_plausible() -> None:
    found = Peaks.from_json(measure_peaks({"device": "cpu", "threads": 1})["peaks"])
    assert all(1e8 < value < 1e13 for _, value in (*found.bandwidth, *found.products))
    assert all(1e-8 < value < 1e-2 for value in found.dispatch_seconds.values())
    assert all(value > 0 for value in found.functions.values())


@given(st.lists(st.floats(-2, 2), min_size=20, max_size=200))
def test_an_interval_holds_nine_in_ten_of_the_errors_it_was_made_of(errors: list[float]) -> None:
    width = half_width(errors, len(errors))
    assert sum(abs(error) <= width for error in errors) >= 0.9 * len(errors)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(1e-7, 1e-3), min_size=3, max_size=3), min_size=0, max_size=12),
    st.integers(0, 1000),
)
def test_factors_stay_within_fivefold_of_the_prior(matrix: list[list[float]], seed: int) -> None:
    seconds = np.random.default_rng(seed).uniform(1e-7, 1e-2, len(matrix))
    prior = np.array([1.0, 2.0, 0.5])
    factors = fit_toward(prior, np.array(matrix).reshape(-1, 3), seconds)
    assert np.all(factors >= prior / 5.001)
    assert np.all(factors <= prior * 5.001)


@given(st.floats(1, 1e10))
def test_a_rate_lies_between_those_that_were_measured(at: float) -> None:
    assert 1e10 * 0.999 <= rate(((1e4, 1e11), (1e9, 1e10)), at) <= 1e11 * 1.001
