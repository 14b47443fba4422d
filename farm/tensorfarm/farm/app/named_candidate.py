"""Which candidate a person means by the first digits of its id.

Invariant: digits that begin two ids mean neither; whoever asks is told which ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.reader import Reader

FEWEST_DIGITS = 4
_LISTED = 5
SHOWN_DIGITS = 16


@dataclass(frozen=True)
class NamedCandidate:
    """A candidate, the cell that it was last submitted for, and its newest artifact, empty where nothing was built."""

    candidate_id: str
    sweep_id: str
    subject: str
    artifact_sha256: str


def candidates_named(reader: Reader, prefix: str) -> list[NamedCandidate]:
    """Every candidate whose id begins so, newest first. Refuses digits that are too few to mean anything."""
    if len(prefix) < FEWEST_DIGITS:
        raise Refusal(
            f"{prefix!r} is too short to name anything",
            limit=f"at least {FEWEST_DIGITS} digits",
            next_step="give more of it",
        )
    rows = reader.named("candidates_named", prefix=prefix).to_pylist()
    return [NamedCandidate(**{**row, "artifact_sha256": row["artifact_sha256"] or ""}) for row in rows]


def candidate_named(reader: Reader, prefix: str, what: str = "candidate") -> NamedCandidate:
    """The one candidate whose id begins so. Refuses what begins none (``what`` might have been meant) and several."""
    found = candidates_named(reader, prefix)
    if not found:
        raise Refusal(
            f"{prefix!r} names no {what} of this store",
            limit="the beginning of an id",
            next_step='take one from: farm query "select candidate_id, subject, outcome from candidates"',
        )
    if len(found) > 1:
        raise several(prefix, "candidates", [(item.candidate_id[:SHOWN_DIGITS], item.subject) for item in found])
    return found[0]


def several(prefix: str, what: str, found: Sequence[tuple[str, str]]) -> Refusal:
    """The refusal of digits that begin several ids; ``found`` has each with what it is of."""
    listed = "; ".join(f"{identity} ({subject})" for identity, subject in found[:_LISTED])
    return Refusal(f"{prefix!r} names {len(found)} {what}", limit=listed, next_step="give more of it")
