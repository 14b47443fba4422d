"""Which sites of a compilation are on: what a bisection asks for and a backend obeys, as text that round-trips.

Sites are numbered from 0 in the order in which the compilation comes upon them. Invariant: with the first n on, the
compilation is the full one up to its n-th site.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tensorfarm.contract.refusal import Refusal

_TEXT = re.compile(r"(?:all|none|first (?P<limit>\d+))(?: but (?P<off>\d+(?:,\d+)*))?")


@dataclass(frozen=True)
class Switches:
    """The first ``limit`` sites (None for all), less those whose numbers are in ``off``."""

    limit: int | None = None
    off: frozenset[int] = frozenset()

    def on(self, site: int) -> bool:
        return site not in self.off and (self.limit is None or site < self.limit)

    def __str__(self) -> str:
        head = "all" if self.limit is None else f"first {self.limit}" if self.limit else "none"
        return f"{head} but {','.join(map(str, sorted(self.off)))}" if self.off else head

    @staticmethod
    def parse(text: str) -> Switches:
        """The inverse of ``str``. Refuses any other text."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise Refusal(
                f"{text!r} names no sites", limit='"all", "none", "first 12" or "all but 3,7"', next_step="correct it"
            )
        head = None if text.startswith("all") else int(found["limit"] or 0)
        return Switches(head, frozenset(int(number) for number in (found["off"] or "").split(",") if number))
