"""The fields of a numerical contract, one by one, each with the direction in which it accepts more.

Invariant: every field of the schema either has one possible word or declares its direction, so that no change of a
contract goes without a name for what it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from tensorfarm.contract.numerics import NOT_ENFORCED, schema


class Widens(StrEnum):
    """Which change of a field accepts more. ``LATER``: a later word of the schema's; ``NARROWER``: a smaller range,
    since then fewer inputs are tried; ``FIXED``: it cannot change."""

    LARGER = "larger"
    SMALLER = "smaller"
    LATER = "later"
    REMOVAL = "removal"
    NARROWER = "narrower"
    UNORDERED = "unordered"
    FIXED = "fixed"


@dataclass(frozen=True)
class FieldRule:
    """``words`` are those of a ``LATER`` field, the strictest first."""

    path: str
    widens: Widens
    words: tuple[Any, ...] = ()


@cache
def field_rules() -> Mapping[str, FieldRule]:
    """Every enforced field by its dotted path, in the order of the file."""
    whole = schema()
    found: dict[str, FieldRule] = {}
    for name, part in whole["properties"].items():
        if name not in NOT_ENFORCED:
            found |= {rule.path: rule for rule in _rules(name, part, whole["$defs"])}
    return found


def field_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted path, of the enforced fields that are there: older formats may lack some."""
    return {path: value for path in field_rules() if (value := _at(fields, path)) is not _ABSENT}


_ABSENT = object()


def _at(fields: Mapping[str, Any], path: str) -> Any:
    place: Any = fields
    for key in path.split("."):
        if not isinstance(place, Mapping) or key not in place:
            return _ABSENT
        place = place[key]
    return place


def _rules(path: str, part: Mapping[str, Any], defined: Mapping[str, Any]) -> Iterator[FieldRule]:
    if "$ref" in part:
        part = defined[part["$ref"].rpartition("/")[2]]
    if "properties" in part:
        for name, inner in part["properties"].items():
            yield from _rules(f"{path}.{name}", inner, defined)
    elif "const" in part:
        yield FieldRule(path, Widens.FIXED)
    else:
        yield FieldRule(path, Widens(part["widens"]), tuple(part.get("enum", ())))
