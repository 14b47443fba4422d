"""Bisection over the sites of a compilation: which to switch on next, and what the answers so far say.

    search = Search(n_sites=50, width=2)
    while probes := search.probes():
        for switches in probes:                       # in parallel, in any order
            search = search.told(switches, answer)    # an Answer
    print(search.result.sentence)

Round 1 asks the two endpoints, all sites on (must be bad) and all off (must be good), and, where workers would be idle,
prefixes between them. Where all on is known to be bad, that endpoint is asked again in the last round instead, if that
has room for it. Then each round cuts the bracket into ``width + 1`` parts, the first one where passes begin: what lies
before a pass is cheap to compile, and a culprit's kind is known early. At last each of the sites that are left, at most
``width``, is switched off alone: only if that cures it is it confirmed. With one culprit and no skip that takes at most
ceil(log_{width + 1} n_sites) + 3 rounds, one of them for the landmarks.

A search is its answers and nothing else: told in any order, repeated, or told anew after an interruption, the same
answers ask for the same probes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tensorfarm.bisect.answer import Answer
from tensorfarm.bisect.prefix import Prefix, spread
from tensorfarm.bisect.result import Result, Status
from tensorfarm.contract.switches import Switches

ALL = Switches()
# Where skips leave a stretch of sites, each of them is switched off alone, if they are not more than this.
_TOGGLED_AT_MOST = 16


@dataclass(frozen=True)
class Search:
    """``width`` probes run at once. ``idle`` sites changed nothing while all were on.

    Nothing is cut between an idle site and the one before. ``landmarks`` are the sites at which another pass begins.
    ``known_bad``: all on was seen to be bad before.
    With an open lower end (all off was skipped) a site is named only after switching it off alone has cured the fault.
    """

    n_sites: int
    width: int
    idle: frozenset[int] = frozenset()
    landmarks: frozenset[int] = frozenset()
    known_bad: bool = False
    answers: frozenset[tuple[Switches, Answer]] = frozenset()

    def told(self, switches: Switches, answer: Answer) -> Search:
        """The search that also knows this answer."""
        return replace(self, answers=self.answers | {(switches, answer)})

    def probes(self) -> tuple[Switches, ...]:
        """What the current round still lacks, in a fixed order; nothing once there is a result."""
        return self._progress.lacking

    @property
    def round(self) -> int:
        """The round that ``probes`` belong to, or in which the search ended; the first is 1."""
        return self._progress.round

    @property
    def result(self) -> Result | None:
        return self._progress.result

    @cached_property
    def _progress(self) -> _Progress:
        """Go through the rounds anew: each is a function of the answers to those before it."""
        told, known = self._told(), dict[Switches, Answer | None]()
        asked, number = self._first_round(), 1
        while True:
            lacking = tuple(probe for probe in asked if probe not in told)
            if lacking:
                return _Progress(number, lacking)
            known |= {probe: told[probe] for probe in asked}
            ended = self._ended(known, number)
            if ended is not None:
                return _Progress(number, (), ended)
            asked, number = self._next_round(known, number), number + 1

    def _told(self) -> dict[Switches, Answer | None]:
        """One answer for each probe: None where it was both good and bad. A skip gives way to either."""
        by_probe: dict[Switches, set[Answer]] = {}
        for switches, answer in self.answers:
            by_probe.setdefault(switches, set()).add(answer)
        definite = {switches: found - {Answer.SKIP} for switches, found in by_probe.items()}
        return {
            switches: None if len(found) > 1 else next(iter(found), Answer.SKIP) for switches, found in definite.items()
        }

    @cached_property
    def _sites(self) -> tuple[int, ...]:
        """The sites that matter. Prefixes are counted over these."""
        return tuple(site for site in range(self.n_sites) if site not in self.idle)

    @cached_property
    def _beginnings(self) -> frozenset[int]:
        """The first site that counts at or after each landmark."""
        first = (next((site for site in self._sites if site >= landmark), -1) for landmark in self.landmarks)
        return frozenset(first)

    def _prefix(self, length: int) -> Switches:
        """The first ``length`` of the sites that count, with the idle ones after them."""
        if length == len(self._sites):
            return ALL
        return Switches(self._sites[length] if length else 0)

    @property
    def _asked_last(self) -> bool:
        """Whether all on waits for the last round. A lone worker has no room for it there."""
        return self.known_bad and self.width > 1 and len(self._sites) > 0

    def _first_round(self) -> tuple[Switches, ...]:
        size = len(self._sites)
        ends = (0,) if self._asked_last else (0, size)
        between = spread(self._begins(range(1, size)) or range(1, size), max(self.width - len(ends), 0))
        return tuple(dict.fromkeys(self._prefix(length) for length in (*ends, *between)))

    def _next_round(self, known: dict[Switches, Answer | None], number: int) -> tuple[Switches, ...]:
        bracket = self._bracket(known)
        landmarks = self._begins(range(bracket.good + 1, bracket.bad)) if number == 1 and not bracket.skipped else []
        points = dict.fromkeys((*spread(landmarks, self.width), *bracket.points(self.width)))
        toggles = [probe for probe in self._toggles(bracket) if probe not in known]
        if points and not self._toggles_tell(bracket, toggles):
            return tuple(self._prefix(length) for length in [*points][: self.width])
        last = [ALL] if self._asked_last and ALL not in known and len(toggles) < self.width else []
        return (*toggles, *last)[: self.width]

    def _toggles_tell(self, bracket: Prefix, toggles: list[Switches]) -> bool:
        """Whether one round can find and confirm at once: each of the sites that are left is switched off alone."""
        left = bracket.bad - bracket.good
        return left == len(toggles) <= self.width and not bracket.skipped and not bracket.open_below

    def _begins(self, lengths: range) -> list[int]:
        """The prefixes of these lengths that end where another pass begins."""
        return [length for length in lengths if self._sites[length] in self._beginnings]

    def _bracket(self, known: dict[Switches, Answer | None]) -> Prefix:
        lengths = {length: known.get(self._prefix(length)) for length in range(len(self._sites) + 1)}
        if self._asked_last and known.get(ALL) is None:
            lengths[len(self._sites)] = Answer.BAD
        return Prefix.of({length: answer for length, answer in lengths.items() if answer is not None})

    def _toggles(self, bracket: Prefix) -> list[Switches]:
        """Each site of the bracket off alone: the confirmation, or, of a short stretch, the last means."""
        sites = self._sites[bracket.good : bracket.bad]
        return [Switches(None, frozenset({site})) for site in sites] if len(sites) <= _TOGGLED_AT_MOST else []

    def _ended(self, known: dict[Switches, Answer | None], rounds: int) -> Result | None:
        def result(status: Status, first: int, last: int, culprit: int | None = None) -> Result:
            return Result(status, culprit, first, last, rounds, len(known))

        everywhere = (0, self.n_sites - 1)
        all_on = known.get(ALL, Answer.BAD if self._asked_last else None)
        if None in known.values() or all_on is Answer.GOOD:
            return result(Status.FLAKY, *everywhere)
        if all_on is not Answer.BAD:
            return result(Status.UNDECIDED, *everywhere)
        if known[self._prefix(0)] is Answer.BAD:
            return result(Status.UNATTRIBUTED, *everywhere)
        bracket = self._bracket(known)
        toggles = self._toggles(bracket)
        all_asked = all(probe in known for probe in toggles)
        cures = [min(probe.off) for probe in toggles if known.get(probe) is Answer.GOOD]
        if all_asked and len(cures) == 1:
            return result(Status.CONFIRMED, cures[0], cures[0], cures[0])
        if bracket.points(self.width) or not all_asked:
            return None
        first, last = self._sites[bracket.good], self._sites[bracket.bad - 1]
        if first == last and not bracket.open_below and known[toggles[0]] is Answer.BAD:
            return result(Status.SEVERAL, first, last, first)
        return result(Status.RANGE, first, last)


@dataclass(frozen=True)
class _Progress:
    round: int
    lacking: tuple[Switches, ...]
    result: Result | None = None
