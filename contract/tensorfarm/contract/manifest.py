"""Every decision that led to an artifact. Says what and why, never how long: equal decisions give equal bytes.

Wall times travel beside it in events. Entries of kind ``pass`` chain by graph hash from the captured graph to the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tensorfarm.contract.digest import canonical_json


class EntryKind(StrEnum):
    PASS = "pass"
    SITE = "site"
    LOWERING = "lowering"
    FUSION = "fusion"
    KERNEL = "kernel"
    FLAG = "flag"
    FALLBACK = "fallback"


class Decision(StrEnum):
    APPLIED = "applied"
    REFUSED = "refused"
    NO_OP = "no_op"


class Numerics(StrEnum):
    """What an applied decision may do to the values."""

    EXACT = "exact"
    ROUNDING = "rounding"
    REASSOCIATION = "reassociation"


@dataclass(frozen=True)
class Entry:
    """One decision. ``site`` is the stable hash of the place; ``reason`` says why it was refused."""

    kind: EntryKind
    name: str
    decision: Decision = Decision.APPLIED
    site: str = ""
    reason: str = ""
    numerics: Numerics = Numerics.EXACT
    ir_hash_before: str = ""
    ir_hash_after: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


def _entry(*, kind: str, decision: str, numerics: str, **plain: Any) -> Entry:
    return Entry(kind=EntryKind(kind), decision=Decision(decision), numerics=Numerics(numerics), **plain)


@dataclass(frozen=True)
class Manifest:
    """``captured_ir_hash`` is the graph the compiler was handed, ``lowered_ir_hash`` the one in the artifact."""

    semantic_hash: str
    pipeline: str
    toolchain: Mapping[str, str]
    captured_ir_hash: str
    lowered_ir_hash: str
    entries: tuple[Entry, ...] = ()

    def to_json(self) -> str:
        return canonical_json({"format": "tensorfarm.manifest/1", **asdict(self)})

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Manifest:
        """Read what ``to_json`` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        entries = tuple(_entry(**entry) for entry in value["entries"])
        fields = {key: item for key, item in value.items() if key not in ("format", "entries")}
        return Manifest(**fields, entries=entries)

    def gaps(self) -> list[str]:
        """Places where the chain of graph hashes breaks: a change of the graph that no pass owns up to."""
        at, found = self.captured_ir_hash, list[str]()
        for entry in self.entries:
            if entry.kind is not EntryKind.PASS:
                continue
            if entry.ir_hash_before != at:
                seen = entry.ir_hash_before[:12]
                found.append(f"before {entry.name}: the graph is {seen}, the last entry left {at[:12]}")
            at = entry.ir_hash_after
        if at != self.lowered_ir_hash:
            found.append(f"after the last pass: the artifact's graph is {self.lowered_ir_hash[:12]}, not {at[:12]}")
        return found
