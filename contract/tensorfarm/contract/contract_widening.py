"""Whether a contract that accepts more than its parent says why, on what evidence, who else looked and until when.

Pure but for the evidence's files, which must be there. Invariant: an entry justifies one change of one field, from the
value that it had to the value that it has; nothing is justified by an entry for another change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tensorfarm.contract.contract_diff import FieldChange
from tensorfarm.contract.contract_fields import field_rules, field_values
from tensorfarm.contract.field_errors import meant


@dataclass(frozen=True)
class Lack:
    """What a widening of ``path`` is refused for, and what to do about it."""

    path: str
    fact: str
    next_step: str


def lacks_of_entries(fields: Mapping[str, Any], folder: Path, today: date) -> list[Lack]:
    """What is wrong with the entries of a contract by itself; ``folder`` is where its evidence's paths begin."""
    values = field_values(fields)
    found: list[Lack] = []
    for entry in fields["governance"]["widenings"]:
        path = entry["field"]
        if path not in field_rules():
            hint = meant(path, field_rules()) or "name a field by its dotted path"
            found.append(Lack(path, "is no field of a contract, yet an entry justifies its widening", hint))
        elif entry["to"] == values[path]:
            found += _faults(entry, fields["contract"]["author"], folder, today)
    return found


def lacks_of_changes(
    changes: Iterable[FieldChange], fields: Mapping[str, Any], folder: Path, today: date
) -> list[Lack]:
    """What each widening among ``changes`` lacks; ``fields`` are the new contract's. Empty where all are justified."""
    found: list[Lack] = []
    for change in changes:
        if change.to_justify:
            found += _lacks(change, fields, folder, today)
    return found


def _lacks(change: FieldChange, fields: Mapping[str, Any], folder: Path, today: date) -> Iterator[Lack]:
    entries = [entry for entry in fields["governance"]["widenings"] if entry["field"] == change.path]
    fitting = [entry for entry in entries if entry["from"] == change.old and entry["to"] == change.new]
    if fitting:
        yield from _faults(fitting[-1], fields["contract"]["author"], folder, today)
    elif entries:
        told = ", ".join(f"from {entry['from']} to {entry['to']}" for entry in entries)
        yield Lack(change.path, f"widens from {change.old} to {change.new}; its entry is for {told}", _ADD)
    else:
        yield Lack(change.path, f"widens from {change.old} to {change.new} and nothing justifies it", _ADD)


_ADD = (
    "add an entry to governance.widenings: field, from, to, justification, issue_link, cause_class, evidence,"
    " second_reviewer, expires"
)


def _faults(entry: Mapping[str, Any], author: str, folder: Path, today: date) -> Iterator[Lack]:
    path = entry["field"]
    if date.fromisoformat(entry["expires"]) <= today:
        yield Lack(path, f"its widening expired on {entry['expires']}", "take it back, or justify it anew")
    if entry["second_reviewer"].strip().casefold() == author.strip().casefold():
        yield Lack(path, f"its second_reviewer is the author, {author}", "have somebody else look at it")
    histogram = entry["evidence"].get("noise_histogram")
    if histogram is not None and not _is_written(folder / histogram):
        yield Lack(path, f"its evidence {histogram} is not there or empty", f"paths begin at {folder}")


def _is_written(place: Path) -> bool:
    return place.is_file() and place.stat().st_size > 0
