"""The bracket of a prefix search: the greatest good prefix, the least bad one above it, and where to ask next.

A prefix is a number of sites that are on, from the first. Invariant: a bracket ends at answers that were given, so the
site that makes the difference lies inside it whatever the answers are, also where good and bad prefixes alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorfarm.bisect.answer import Answer

# Skipped prefixes tend to lie side by side (a site that others need is off): more of them in a row teach nothing.
_SKIPS_AT_MOST = 24


@dataclass(frozen=True)
class Prefix:
    """``good`` and ``bad`` count sites that are on. ``skipped`` are the prefixes between them that could not tell.

    ``good`` is 0 also where the empty prefix was skipped; ``open_below`` says so.
    """

    good: int
    bad: int
    skipped: tuple[int, ...]
    open_below: bool

    @staticmethod
    def of(answers: Mapping[int, Answer]) -> Prefix:
        """The bracket after ``answers`` by prefix length, of which the longest is bad."""
        good = max((length for length, answer in answers.items() if answer is Answer.GOOD), default=-1)
        low = max(good, 0)
        bad = min(length for length, answer in answers.items() if answer is Answer.BAD and length > low)
        skipped = sorted(length for length, answer in answers.items() if answer is Answer.SKIP and low < length < bad)
        return Prefix(low, bad, tuple(skipped), open_below=good < 0)

    def points(self, width: int) -> tuple[int, ...]:
        """At most ``width`` prefixes to ask for next, evenly apart; none where the bracket cannot become narrower."""
        return spread(self._unasked(), width)

    def _unasked(self) -> Sequence[int]:
        if not self.skipped:
            return range(self.good + 1, self.bad)
        # First find where the skipped stretch begins and ends; with an open lower end it begins there.
        below = range(self.good + 1, self.good + 1 if self.open_below else self.skipped[0])
        edges = [*below, *range(self.skipped[-1] + 1, self.bad)]
        if edges:
            return edges
        if len(self.skipped) >= _SKIPS_AT_MOST:
            return ()
        return [length for length in range(self.good + 1, self.bad) if length not in self.skipped]


def spread(candidates: Sequence[int], width: int) -> tuple[int, ...]:
    """At most ``width`` of ``candidates`` that cut them into parts of nearly equal length."""
    count = min(width, len(candidates))
    # Over ``count + 1`` parts of ``len + 1`` steps: the longest part is the length that the bound on rounds counts on.
    return tuple(candidates[(part * (len(candidates) + 1)) // (count + 1) - 1] for part in range(1, count + 1))
