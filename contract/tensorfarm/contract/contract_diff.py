"""What separates two numerical contracts, field by field: which accept more, which accept less.

Pure over the fields. Invariant: seen from the other side, what tightens widens, and what neither does is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tensorfarm.contract.contract_fields import FieldRule, Widens, field_rules, field_values


class Change(StrEnum):
    """``CHANGES``: neither accepts all that the other does."""

    EQUAL = "equal"
    TIGHTENS = "tightens"
    WIDENS = "widens"
    CHANGES = "changes"


_OPPOSITE = {Change.WIDENS: Change.TIGHTENS, Change.TIGHTENS: Change.WIDENS}


@dataclass(frozen=True)
class FieldChange:
    """``ratio`` is how much more a number accepts, below 1 where it accepts less; 1 where it is no number."""

    path: str
    change: Change
    old: Any
    new: Any
    ratio: float
    drops: bool

    @property
    def to_justify(self) -> bool:
        """Whether the new contract accepts something that the old one did not. A list that lost one item and gained
        another does, though it is no plain widening."""
        return self.change is Change.WIDENS or self.drops


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldChange]:
    """Every enforced field that both have, in the order of the file."""
    before, after, rules = field_values(old), field_values(new), field_rules()
    return [_compared(rules[path], before[path], after[path]) for path in before if path in after]


def _compared(rule: FieldRule, old: Any, new: Any) -> FieldChange:
    change = Change.EQUAL if _same(old, new) else _CHANGES[rule.widens](rule, old, new)
    drops = change is Change.CHANGES and rule.widens in (Widens.REMOVAL, Widens.NARROWER, Widens.FIXED)
    return FieldChange(rule.path, change, old, new, _ratio(rule, old, new), drops)


def _same(old: Any, new: Any) -> bool:
    """The order of a list says nothing, but for a range's. ``1`` and ``true`` are two things."""
    if isinstance(old, list) and isinstance(new, list):
        return sorted(map(repr, old)) == sorted(map(repr, new)) or old == new
    return old == new and isinstance(old, bool) == isinstance(new, bool)


def _larger(_rule: FieldRule, old: Any, new: Any) -> Change:
    return Change.WIDENS if new > old else Change.TIGHTENS


def _smaller(_rule: FieldRule, old: Any, new: Any) -> Change:
    return _OPPOSITE[_larger(_rule, old, new)]


def _later(rule: FieldRule, old: Any, new: Any) -> Change:
    if old not in rule.words or new not in rule.words:
        return Change.CHANGES
    return _larger(rule, rule.words.index(old), rule.words.index(new))


def _removal(_rule: FieldRule, old: Any, new: Any) -> Change:
    lost, gained = set(old) - set(new), set(new) - set(old)
    if lost and gained:
        return Change.CHANGES
    return Change.WIDENS if lost else Change.TIGHTENS


def _narrower(_rule: FieldRule, old: Any, new: Any) -> Change:
    if old[0] <= new[0] and new[1] <= old[1]:
        return Change.WIDENS
    return Change.TIGHTENS if new[0] <= old[0] and old[1] <= new[1] else Change.CHANGES


def _unordered(_rule: FieldRule, _old: Any, _new: Any) -> Change:
    return Change.CHANGES


_CHANGES = {
    Widens.LARGER: _larger,
    Widens.SMALLER: _smaller,
    Widens.LATER: _later,
    Widens.REMOVAL: _removal,
    Widens.NARROWER: _narrower,
    Widens.UNORDERED: _unordered,
    Widens.FIXED: _unordered,
}


def _ratio(rule: FieldRule, old: Any, new: Any) -> float:
    if rule.widens not in (Widens.LARGER, Widens.SMALLER) or old == new:
        return 1.0
    more, less = (new, old) if rule.widens is Widens.LARGER else (old, new)
    return more / less if less else math.inf
