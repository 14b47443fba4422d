"""Whether a contract crept: the widenings of its history since the last audit, added up, and what they leave unused.

Pure over revisions. Invariant: an audit counts from a commit that widens nothing, so no widening audits itself, and
from no later day than that commit's, so no audit lies in the future.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import PurePosixPath
from typing import Any

from tensorfarm.contract.contract_diff import FieldChange, compared

CODE = frozenset({".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp"})


@dataclass(frozen=True)
class Revision:
    """One commit of a contract. ``before`` and ``after`` are parsed files of any format, empty where there was none or
    it is unreadable. ``files`` are all that the commit changed."""

    commit: str
    day: date
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Widening:
    """``ratio`` is how much more a number accepts, 1 where the field is no number."""

    commit: str
    day: date
    path: str
    old: Any
    new: Any
    ratio: float


@dataclass(frozen=True)
class Alarm:
    """``rule`` is a word of the contract's governance; ``value`` went over ``limit``."""

    rule: str
    path: str
    value: float
    limit: float
    message: str


@dataclass(frozen=True)
class Drift:
    """``since`` is the day from which widenings count, None where that is the first commit."""

    since: date | None
    widenings: tuple[Widening, ...]
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True)
class Slack:
    """The 99.9th percentile of error over limit among ``n`` findings of honest artifacts, by part of ``budgets``."""

    path: str
    observed_over_limit: float
    n: int


@dataclass(frozen=True)
class DriftRules:
    """The numbers of ``governance.drift``."""

    product_of_ratios_over: float
    widenings: int
    within_days: int
    budget_over_observed: float


def drift(revisions: Sequence[Revision], fields: Mapping[str, Any], today: date, slack: Iterable[Slack] = ()) -> Drift:
    """What happened to a contract; ``revisions`` oldest first, ``fields`` those of its newest, valid version."""
    rules = DriftRules(**fields["governance"]["drift"])
    history = _History.of(revisions)
    widened = tuple(item for item in history.widenings if history.since is None or item.day > history.since)
    alarms = [
        *_products(widened, rules),
        *_clusters(widened, rules),
        *_with_code(widened, revisions),
        *_expired(fields, today),
        *_unused(slack, rules),
    ]
    return Drift(history.since, widened, tuple(alarms))


@dataclass
class _History:
    since: date | None = None
    widenings: list[Widening] = field(default_factory=list[Widening])

    @staticmethod
    def of(revisions: Sequence[Revision]) -> _History:
        found = _History()
        for revision in revisions:
            changes = [item for item in compared(revision.before, revision.after) if item.to_justify]
            found.widenings += [_widening(revision, item) for item in changes]
            audited = _audited(revision.after)
            if audited is not None and audited != _audited(revision.before) and not changes:
                found.since = min(audited, revision.day)
        return found


def _widening(revision: Revision, change: FieldChange) -> Widening:
    return Widening(revision.commit, revision.day, change.path, change.old, change.new, max(change.ratio, 1.0))


def _audited(fields: Mapping[str, Any]) -> date | None:
    governance = fields.get("governance")
    told = governance.get("audited") if isinstance(governance, Mapping) else None
    try:
        return date.fromisoformat(str(told)) if told is not None else None
    except ValueError:
        return None


def _products(widened: Sequence[Widening], rules: DriftRules) -> Iterator[Alarm]:
    ratios: dict[str, list[float]] = defaultdict(list)
    for item in widened:
        ratios[item.path].append(item.ratio)
    for path, found in ratios.items():
        product = math.prod(found)
        if product > rules.product_of_ratios_over:
            times = f"in {len(found)} steps" if len(found) > 1 else "in one step"
            message = f"{path} accepts {product:.3g} times as much as at the last audit, {times}"
            yield Alarm("product_of_ratios_over", path, product, rules.product_of_ratios_over, message)


def _clusters(widened: Sequence[Widening], rules: DriftRules) -> Iterator[Alarm]:
    """At most one alarm: the fullest window of days that begins with a widening."""
    days = {item.commit: item.day for item in widened}
    windows = [
        [commit for commit, day in days.items() if 0 <= (day - start).days <= rules.within_days]
        for start in days.values()
    ]
    fullest = max(windows, key=len, default=[])
    if len(fullest) >= rules.widenings:
        paths = ", ".join(sorted({item.path for item in widened if item.commit in fullest}))
        message = f"{len(fullest)} commits widened {paths} within {rules.within_days} days"
        yield Alarm("widenings", paths, float(len(fullest)), float(rules.widenings), message)


def _with_code(widened: Sequence[Widening], revisions: Sequence[Revision]) -> Iterator[Alarm]:
    """A contract must not be widened by the change that fails on it: one commit with both cannot be told apart."""
    files = {revision.commit: revision.files for revision in revisions}
    for commit in dict.fromkeys(item.commit for item in widened):
        code = [name for name in files[commit] if _is_code(PurePosixPath(name))]
        if code:
            paths = ", ".join(item.path for item in widened if item.commit == commit)
            message = f"{commit[:12]} widened {paths} and changed {code[0]}: the two belong into two commits"
            yield Alarm("widened_with_code", paths, float(len(code)), 0.0, message)


def _is_code(name: PurePosixPath) -> bool:
    return name.suffix in CODE and "tests" not in name.parts


def _expired(fields: Mapping[str, Any], today: date) -> Iterator[Alarm]:
    for entry in fields["governance"]["widenings"]:
        days = (today - date.fromisoformat(entry["expires"])).days
        if days >= 0:
            message = f"the widening of {entry['field']} to {entry['to']} expired on {entry['expires']}"
            yield Alarm("expires", entry["field"], float(days), 0.0, message)


def _unused(slack: Iterable[Slack], rules: DriftRules) -> Iterator[Alarm]:
    for item in slack:
        over = 1 / item.observed_over_limit if item.observed_over_limit > 0 else math.inf
        if over > rules.budget_over_observed:
            message = f"{item.path} allows {over:.3g} times the 99.9th percentile of {item.n} findings: tighten it"
            yield Alarm("budget_over_observed", item.path, over, rules.budget_over_observed, message)
