"""A cell's bisection as a fold: what failed, which probes were answered, what the search makes of them.

Invariant: only a probe that fails in the same way is bad. One that fails otherwise, or does not compile, says nothing
about the culprit: a skip.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorfarm.bisect.answer import Answer
from tensorfarm.bisect.result import Result
from tensorfarm.bisect.result import Status as Ending
from tensorfarm.bisect.search import Search
from tensorfarm.contract.digest import canonical_json, finite
from tensorfarm.contract.manifest import Decision, EntryKind
from tensorfarm.contract.outcome import Status
from tensorfarm.contract.switches import Switches

Row = Mapping[str, Any]
UNSTEADY = "unsteady"
_WITH_VALUES = ("forward", "gradient")


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to. ``failure`` is the one that was searched for."""

    bisection_id: str
    failure: str
    result: Result

    @property
    def can_be_shown(self) -> bool:
        """Whether a script can be written: about a culprit, and a finding that it shows."""
        return self.result.culprit is not None and bool(json.loads(self.failure)["finding"])


@dataclass(slots=True)
class Bisection:
    """``answered`` is the number of probes that were."""

    bisection_id: str
    failure: str
    search: Search
    answered: int = 0

    def told(self, probe: str, answer: str) -> None:
        """One compilation that comes out differently is as much as one that is right once and wrong once."""
        for said in (Answer.GOOD, Answer.BAD) if answer == UNSTEADY else (Answer(answer),):
            self.search = self.search.told(Switches.parse(probe), said)
        self.answered += 1

    @property
    def found(self) -> Found | None:
        """The end of the search, once it has one."""
        result = self.search.result
        return None if result is None else Found(self.bisection_id, self.failure, result)

    @property
    def given_up(self) -> Found:
        """What to say where the search cannot go on."""
        search = self.search
        result = Result(Ending.UNDECIDED, None, 0, search.n_sites - 1, search.round, self.answered)
        return Found(self.bisection_id, self.failure, result)


@dataclass(frozen=True, slots=True)
class Sites:
    """What a manifest says of its switchable sites.

    ``landmarks`` are those at which another pass begins: another place in our pipeline, or another subsystem of
    Inductor's. ``idle`` ones changed nothing.
    """

    count: int = 0
    landmarks: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()

    @staticmethod
    def of(count: int, manifest: Sequence[Row]) -> Sites:
        landmarks, idle, before = list[int](), list[int](), tuple[str, ...]()
        for row in manifest:
            told = row.get("attributes") or {}
            if row["kind"] != EntryKind.SITE or "ordinal" not in told:
                continue
            at = tuple(told.get(key, "") for key in ("position", "stage", "subsystem"))
            if before and at != before:
                landmarks.append(int(told["ordinal"]))
            if row["decision"] == Decision.NO_OP:
                idle.append(int(told["ordinal"]))
            before = at
        return Sites(count, tuple(landmarks), tuple(idle))


def failure_of(outcome: str, kind: str, findings: Sequence[Row]) -> str:
    """How a candidate failed, as JSON: outcome, kind, failing checks, and the finding that shows it best."""
    failed = [row for row in findings if row["status"] == Status.FAIL]
    checks = sorted({str(row["check_name"]) for row in failed})
    told = {"outcome": outcome, "kind": kind, "checks": checks, "finding": finite(_most_telling(failed))}
    return canonical_json(told)


def _most_telling(failed: Sequence[Row]) -> Row:
    """A value that is off, and most of all; outputs before gradients, which inherit their errors."""
    if not failed:
        return {}
    return min(failed, key=lambda row: (_rank(row), -float(row.get("observed_over_limit") or 0.0)))


def _rank(row: Row) -> tuple[bool, int]:
    """What the example inputs show comes first: a script has no others."""
    name = row["check_name"]
    elsewhere = (row.get("input_suite"), row.get("layout")) != ("example", "as_captured")
    return elsewhere, _WITH_VALUES.index(name) if name in _WITH_VALUES else len(_WITH_VALUES)


def answer(failure: str, status: str, outcome: str, kind: str, findings: Sequence[Row]) -> Answer:
    """What a verdict on a probe says: good where it passes, bad where it fails as ``failure`` did, else a skip."""
    if status == Status.PASS:
        return Answer.GOOD
    wanted = json.loads(failure)
    checks = {str(row["check_name"]) for row in findings if row["status"] == Status.FAIL}
    alike = bool(checks & set(wanted["checks"])) or checks == set(wanted["checks"])
    same = status == Status.FAIL and alike and (outcome, kind) == (wanted["outcome"], wanted["kind"])
    return Answer.BAD if same else Answer.SKIP
