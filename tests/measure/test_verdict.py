"""What is said of paired samples: planted slow-downs, noise, broken samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tensorfarm.farm.measure.verdict import ALPHA, Answer, Verdict, judged, noise_floor, signed_rank

THRESHOLD = 0.05


def drawn(seed: int, ratio: float, noise: float, groups: int = 36, samples: int = 4) -> tuple[list[float], list[float]]:
    """Seconds of a candidate that takes ``ratio`` times the baseline's, both with log-normal noise."""
    made = np.random.default_rng(seed)
    sides = np.exp(noise * made.standard_normal((2, groups * samples)))
    return (sides[0] * ratio * 1e-3).tolist(), (sides[1] * 1e-3).tolist()


def verdict(seed: int, ratio: float, noise: float, groups: int = 36) -> Verdict:
    candidate, baseline = drawn(seed, ratio, noise, groups)
    return judged(candidate, baseline, groups, 6, THRESHOLD)


def test_a_slow_side_is_worse_and_its_ratio_is_in_the_interval() -> None:
    seen = verdict(0, 1.2, 0.02)
    assert seen.answer is Answer.WORSE
    assert seen.lower <= 1.2 <= seen.upper
    assert seen.p <= ALPHA
    assert seen.smallest_detectable < 1.05


def test_a_fast_side_is_better() -> None:
    assert verdict(0, 1 / 1.2, 0.02).answer is Answer.BETTER


def test_the_same_on_both_sides_is_no_worse() -> None:
    assert verdict(0, 1.0, 0.02).answer is Answer.NO_WORSE


def test_a_slow_down_below_the_threshold_is_no_worse_however_certain_it_is() -> None:
    seen = verdict(0, 1.02, 0.005)
    assert seen.lower > 1
    assert seen.answer is Answer.NO_WORSE


def test_noise_beyond_the_threshold_is_inconclusive_and_says_what_it_could_have_seen() -> None:
    seen = verdict(0, 1.0, 1.0)
    assert seen.answer is Answer.INCONCLUSIVE
    assert seen.smallest_detectable > 1 + THRESHOLD
    assert f"{seen.smallest_detectable:.3f}" in seen.message


@pytest.mark.parametrize("groups", range(1, 8))
def test_few_pairs_prove_nothing(groups: int) -> None:
    seen = verdict(0, 2.0, 0.001, groups)
    assert seen.answer is Answer.INCONCLUSIVE
    assert math.isinf(seen.smallest_detectable)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_sample_that_is_no_time_measures_nothing(bad: float) -> None:
    candidate, baseline = drawn(0, 1.0, 0.01)
    candidate[5] = bad
    seen = judged(candidate, baseline, 36, 6, THRESHOLD)
    assert seen.answer is Answer.MEASURED_NOTHING
    assert "sample 5 of the candidate" in seen.message


def test_no_samples_and_unequal_sides_measure_nothing() -> None:
    assert judged([], [], 0, 0, THRESHOLD).answer is Answer.MEASURED_NOTHING
    assert judged([1.0] * 72, [1.0] * 70, 18, 6, THRESHOLD).answer is Answer.MEASURED_NOTHING


def test_a_ratio_that_differs_from_one_pair_of_processes_to_the_next_widens_the_interval() -> None:
    """Layout luck: each round's groups agree among themselves, and say nothing about the next round's."""
    luck = np.repeat([0.9, 1.2, 1.0, 1.15, 0.95, 1.3], 6 * 4)
    candidate, baseline = drawn(0, 1.0, 0.002)
    seen = judged((np.array(candidate) * luck).tolist(), baseline, 36, 6, THRESHOLD)
    assert seen.lower < 1 < seen.upper
    assert seen.answer is Answer.INCONCLUSIVE


def test_false_alarms_of_pure_noise_are_rare_and_a_slow_down_of_a_fifth_is_found() -> None:
    alarms = [verdict(seed, 1.0, 0.1).answer is Answer.WORSE for seed in range(300)]
    found = [verdict(seed, 1.2, 0.1).answer for seed in range(300)]
    assert sum(alarms) <= 3
    assert Answer.NO_WORSE not in found
    assert found.count(Answer.WORSE) >= 270


times = st.floats(1e-6, 10.0)


@given(st.integers(8, 20), st.integers(1, 6), st.data())
@settings(max_examples=60, deadline=None)
def test_swapping_the_sides_gives_the_reciprocal(groups: int, rounds: int, data: st.DataObject) -> None:
    sides = st.lists(times, min_size=2 * groups, max_size=2 * groups)
    candidate, baseline = data.draw(sides), data.draw(sides)
    one = judged(candidate, baseline, groups, rounds, THRESHOLD)
    other = judged(baseline, candidate, groups, rounds, THRESHOLD)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.lower == pytest.approx(1 / one.upper)
    assert other.p == pytest.approx(one.p)
    assert other.smallest_detectable == pytest.approx(one.smallest_detectable)
    assert (one.answer is Answer.WORSE) == (other.answer is Answer.BETTER)


@given(st.lists(st.floats(-3, 3).filter(lambda x: abs(x) > 1e-9), min_size=1, max_size=20, unique_by=abs))
@settings(max_examples=60, deadline=None)
def test_the_test_is_the_exact_signed_rank_test_and_agrees_with_its_interval(values: list[float]) -> None:
    _, lower, upper, p = signed_rank(np.array(values))
    assert p == pytest.approx(stats.wilcoxon(values, mode="exact").pvalue)
    assert (p <= ALPHA) == (lower > 0 or upper < 0)


def test_the_noise_floor_grows_with_the_noise_and_is_unknown_for_few_groups() -> None:
    floors = [noise_floor(drawn(0, 1.0, noise)[0], 36) for noise in (0.01, 0.1)]
    assert 1 < floors[0] < floors[1]
    assert math.isinf(noise_floor([1.0, 1.0], 1))
