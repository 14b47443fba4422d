"""Searches over planted culprits: the right site is named, in the rounds promised, and never a wrong one."""

import math
import random
from collections.abc import Callable, Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.bisect.answer import Answer
from tensorfarm.bisect.result import Result, Status
from tensorfarm.bisect.search import ALL, Search
from tensorfarm.contract.switches import Switches

NONE = Switches(0)


def finished(search: Search, ask: Callable[[Switches], Answer]) -> tuple[Result, list[tuple[str, ...]]]:
    """Run a search to its end; also gives each round's probes as text."""
    rounds: list[tuple[str, ...]] = []
    while probes := search.probes():
        assert len(probes) <= max(search.width, 2)
        rounds.append(tuple(map(str, probes)))
        for probe in probes:
            search = search.told(probe, ask(probe))
    assert search.result is not None
    assert search.result.rounds == len(rounds) == search.round
    assert search.result.probes == sum(map(len, rounds))
    return search.result, rounds


def broken_by(*culprits: int) -> Callable[[Switches], Answer]:
    return lambda switches: Answer.BAD if any(map(switches.on, culprits)) else Answer.GOOD


def with_skips(ask: Callable[[Switches], Answer], lengths: Collection[int]) -> Callable[[Switches], Answer]:
    """Prefixes of these lengths cannot tell."""
    return lambda switches: Answer.SKIP if switches.limit in lengths else ask(switches)


def bound(n_sites: int, width: int) -> int:
    """The least r with (width + 1) ** r >= n, and three; no logarithm, which rounds."""
    return next(r for r in range(20) if (width + 1) ** r >= n_sites) + 3


@given(st.data(), st.integers(1, 300), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_every_planted_culprit_is_confirmed_in_the_rounds_promised(data: st.DataObject, n: int, width: int) -> None:
    culprit = data.draw(st.integers(0, n - 1))
    result, _ = finished(Search(n, width), broken_by(culprit))
    assert (result.status, result.culprit, result.first, result.last) == (Status.CONFIRMED, culprit, culprit, culprit)
    assert result.rounds <= bound(n, width)


@given(st.data(), st.integers(1, 300), st.integers(1, 8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_landmarks_and_a_fault_that_was_seen_already_cost_no_more_rounds_than_promised(
    data: st.DataObject, n: int, width: int, known_bad: bool
) -> None:
    culprit = data.draw(st.integers(0, n - 1))
    landmarks = data.draw(st.frozensets(st.integers(0, n - 1), max_size=12))
    search = Search(n, width, landmarks=landmarks, known_bad=known_bad)
    result, _ = finished(search, broken_by(culprit))
    assert (result.status, result.culprit) == (Status.CONFIRMED, culprit)
    assert result.rounds <= bound(n, width)


@given(st.data(), st.integers(1, 200), st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_sites_that_changed_nothing_are_never_blamed_and_cost_nothing(data: st.DataObject, n: int, width: int) -> None:
    culprit = data.draw(st.integers(0, n - 1))
    idle = data.draw(st.frozensets(st.integers(0, n - 1))) - {culprit}
    result, _ = finished(Search(n, width, idle=idle, known_bad=True), broken_by(culprit))
    assert (result.status, result.culprit) == (Status.CONFIRMED, culprit)
    assert result.rounds <= bound(n - len(idle), width)


def test_a_site_that_seemed_idle_and_breaks_it_is_not_pinned_on_its_neighbour() -> None:
    result, _ = finished(Search(9, 2, idle=frozenset({4})), broken_by(4))
    assert result.status is Status.SEVERAL


def test_landmarks_are_asked_before_anything_between_them() -> None:
    _, rounds = finished(Search(200, 2, landmarks=frozenset({70, 90}), known_bad=True), broken_by(80))
    assert rounds[:3] == [("none", "first 70"), ("first 90", "first 113"), ("first 76", "first 83")]
    assert rounds[-1] == ("all but 80", "all")


def test_a_fault_that_was_seen_and_is_gone_in_the_last_round_is_flaky() -> None:
    search = Search(50, 2, known_bad=True)
    answers = {"all": Answer.GOOD}
    result, _ = finished(search, lambda probe: answers.get(str(probe), broken_by(30)(probe)))
    assert (result.status, result.culprit) == (Status.FLAKY, None)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_no_culprit_of_a_small_compilation_is_missed(width: int) -> None:
    for n in range(1, 12):
        for culprit in range(n):
            result, _ = finished(Search(n, width), broken_by(culprit))
            assert (result.status, result.culprit) == (Status.CONFIRMED, culprit)
            assert result.rounds <= bound(n, width)


def test_the_bound_is_the_logarithm() -> None:
    assert [bound(n, 2) - 3 for n in (1, 2, 3, 4, 9, 10, 27)] == [0, 1, 1, 2, 2, 3, 3]
    assert bound(200, 8) - 3 == math.ceil(math.log(200, 9))


@given(st.data(), st.integers(1, 120), st.integers(1, 8), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_answers_in_any_order_and_repeated_ask_for_the_same_probes(
    data: st.DataObject, n: int, width: int, shuffler: random.Random
) -> None:
    ask = broken_by(data.draw(st.integers(0, n - 1)))
    search, given_so_far = Search(n, width), list[tuple[Switches, Answer]]()
    while probes := search.probes():
        probe = shuffler.choice(probes)
        given_so_far.append((probe, ask(probe)))
        search = search.told(*given_so_far[-1])
        again = Search(n, width)
        for switches, answer in shuffler.sample(given_so_far * 2, 2 * len(given_so_far)):
            again = again.told(Switches.parse(str(switches)), answer)
        assert (again.probes(), again.round, again.result) == (search.probes(), search.round, search.result)


@given(st.data(), st.integers(1, 80), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_skips_never_lead_to_a_wrong_culprit(data: st.DataObject, n: int, width: int) -> None:
    culprit = data.draw(st.integers(0, n - 1))
    skipped = data.draw(st.sets(st.integers(0, n)))
    ask = with_skips(broken_by(culprit), skipped)
    result, _ = finished(Search(n, width), ask)
    assert result.status in {Status.CONFIRMED, Status.RANGE}
    assert result.first <= culprit <= result.last
    assert result.culprit in {None, culprit}


@given(st.data(), st.integers(2, 60), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_few_skips_elsewhere_do_not_hide_the_culprit(data: st.DataObject, n: int, width: int) -> None:
    culprit = data.draw(st.integers(0, n - 1))
    skipped = data.draw(st.sets(st.integers(1, n - 1), max_size=10)) - {culprit, culprit + 1}
    result, _ = finished(Search(n, width), with_skips(broken_by(culprit), skipped))
    assert (result.status, result.culprit) == (Status.CONFIRMED, culprit)


@pytest.mark.parametrize("culprit", [2, 7, 8, 40, 99])
def test_sites_that_the_others_need_leave_the_lower_end_open_and_the_culprit_is_found(culprit: int) -> None:
    def ask(switches: Switches) -> Answer:
        return broken_by(culprit)(switches) if switches.on(7) else Answer.SKIP

    result, _ = finished(Search(100, 2), ask)
    if culprit == 7:  # no probe can tell: what needs it, and what it breaks, go together
        assert (result.status, result.culprit, result.first, result.last) == (Status.RANGE, None, 0, 7)
    else:
        assert (result.status, result.culprit) == (Status.CONFIRMED, culprit)


def test_a_long_stretch_of_skips_is_given_up_as_a_range() -> None:
    result, _ = finished(Search(300, 2), with_skips(broken_by(150), range(100, 201)))
    assert (result.status, result.culprit, result.first, result.last) == (Status.RANGE, None, 99, 200)
    assert result.sentence.startswith("no narrower than sites 99 to 200")


def test_skips_around_the_culprit_are_bridged_by_switching_it_off_alone() -> None:
    result, _ = finished(Search(50, 2), with_skips(broken_by(20), range(16, 25)))
    assert (result.status, result.culprit) == (Status.CONFIRMED, 20)


def test_a_confirmation_that_cannot_tell_leaves_one_site_unconfirmed() -> None:
    def ask(switches: Switches) -> Answer:
        return Answer.SKIP if switches.off else broken_by(20)(switches)

    result, _ = finished(Search(50, 2), ask)
    assert (result.status, result.culprit, result.first, result.last) == (Status.RANGE, None, 20, 20)


def test_of_two_culprits_one_is_named_and_the_other_is_said_to_be_there() -> None:
    result, _ = finished(Search(50, 3), broken_by(10, 30))
    assert (result.status, result.culprit) == (Status.SEVERAL, 10)


def test_of_two_sites_that_break_only_together_the_later_is_confirmed() -> None:
    def ask(switches: Switches) -> Answer:
        return Answer.BAD if switches.on(10) and switches.on(30) else Answer.GOOD

    result, _ = finished(Search(50, 2), ask)
    assert (result.status, result.culprit) == (Status.CONFIRMED, 30)


def test_a_fault_that_a_later_site_repairs_is_not_what_is_named() -> None:
    def ask(switches: Switches) -> Answer:
        return Answer.BAD if switches.on(40) or (switches.on(3) and not switches.on(20)) else Answer.GOOD

    result, _ = finished(Search(50, 8), ask)
    assert (result.status, result.culprit) == (Status.CONFIRMED, 40)


def test_a_fault_that_stays_with_all_off_is_not_attributed() -> None:
    result, rounds = finished(Search(50, 2), lambda _: Answer.BAD)
    assert (result.status, result.culprit) == (Status.UNATTRIBUTED, None)
    assert rounds == [("none", "all")]


def test_a_fault_that_is_gone_at_the_second_try_is_flaky() -> None:
    result, _ = finished(Search(50, 2), lambda _: Answer.GOOD)
    assert result.status is Status.FLAKY


def test_one_probe_with_two_answers_is_flaky_whenever_it_is_told() -> None:
    search = Search(50, 2).told(NONE, Answer.GOOD).told(ALL, Answer.BAD)
    assert search.told(ALL, Answer.BAD).result is None
    contradicted = search.told(ALL, Answer.GOOD).result
    assert contradicted is not None
    assert contradicted.status is Status.FLAKY


def test_a_probe_that_was_skipped_once_may_be_answered_later() -> None:
    search = Search(1, 2).told(NONE, Answer.SKIP).told(ALL, Answer.BAD).told(NONE, Answer.GOOD)
    assert list(map(str, search.probes())) == ["all but 0"]


def test_a_fault_that_shows_in_another_way_now_is_undecided() -> None:
    result, _ = finished(Search(50, 2), lambda switches: Answer.SKIP if switches == ALL else Answer.GOOD)
    assert result.status is Status.UNDECIDED


def test_a_compilation_without_sites_is_asked_once() -> None:
    result, rounds = finished(Search(0, 4), lambda _: Answer.BAD)
    assert (result.status, result.culprit, rounds) == (Status.UNATTRIBUTED, None, [("all",)])


TRANSCRIPTS = {
    (1, 2, 0): [("none", "all"), ("all but 0",)],
    (2, 2, 1): [("none", "all"), ("all but 0", "all but 1")],
    (12, 1, 7): [("none", "all"), ("first 6",), ("first 9",), ("first 7",), ("first 8",), ("all but 7",)],
    (50, 4, 31): [
        ("none", "all", "first 16", "first 33"),
        ("first 19", "first 22", "first 26", "first 29"),
        ("all but 29", "all but 30", "all but 31", "all but 32"),
    ],
}


@pytest.mark.parametrize(("n", "width", "culprit"), TRANSCRIPTS)
def test_a_search_asks_these_probes_and_no_others(n: int, width: int, culprit: int) -> None:
    _, rounds = finished(Search(n, width), broken_by(culprit))
    assert rounds == TRANSCRIPTS[(n, width, culprit)]
