"""Which artifact a person means: a file, the beginning of a sha256 or of a candidate's id, or a cell of a sweep.

Invariant: a name that means two artifacts means none; whoever asks is told which ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.named_candidate import SHOWN_DIGITS, candidates_named, several
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

_KINDS_OF_NAME = "a .artifact file, the beginning of a sha256 or candidate id, or SWEEP_ID:CELL"


@dataclass(frozen=True)
class Named:
    """An artifact's file, and what its candidate was submitted as where the store knows that."""

    path: Path
    sha256: str
    submitted: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_digests: Mapping[str, str] = field(default_factory=dict[str, str])


def _artifact_file(layout: StoreLayout, sha256: str) -> Path:
    """Where the store keeps these bytes, admitted or only built. Refuses bytes that are gone."""
    for folder in (layout.artifacts, layout.built):
        if (place := folder / f"{sha256}.artifact").is_file():
            return place
    raise Refusal(
        f"the file of artifact {sha256[:12]} is gone",
        limit=f"{sha256[:12]}….artifact in {layout.artifacts} or {layout.built}",
        next_step='run "farm sweep" again: it will be compiled anew',
    )


def named(text: str, layout: StoreLayout) -> Named:
    """The artifact that ``text`` means. Refuses what names none, and what names several."""
    path = Path(text)
    if path.suffix == ".artifact":
        return _of_file(path)
    with Reader(layout) as reader:
        sweep_id, colon, subject = text.partition(":")
        sha256, candidate_id = _of_cell(reader, sweep_id, subject) if colon else _of_prefix(reader, text)
        return Named(_artifact_file(layout, sha256), sha256, *_submitted(reader, candidate_id))


def known_candidate(layout: StoreLayout, candidate_id: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What a store knows of a candidate; nothing where there is no store."""
    if not layout.journal.is_dir() and not layout.lake.is_dir():
        return {}, {}
    with Reader(layout) as reader:
        return _submitted(reader, candidate_id)


def _of_file(path: Path) -> Named:
    if not path.is_file():
        raise Refusal(f"there is no file {path}", limit=_KINDS_OF_NAME, next_step="correct the path")
    return Named(path, sha256_file(path))


def _of_cell(reader: Reader, sweep_id: str, subject: str) -> tuple[str, str]:
    rows = reader.named("explain_cell", sweep_id=sweep_id, subject=subject).to_pylist()
    if not rows:
        raise Refusal(
            f"cell {subject!r} of sweep {sweep_id!r} has no artifact",
            limit="a cell that compiled, or that the cache answered",
            next_step=f'"farm report sweep {sweep_id}" lists its cells',
        )
    return rows[0]["sha256"], rows[0]["candidate_id"]


def _of_prefix(reader: Reader, prefix: str) -> tuple[str, str]:
    """By the artifact's own sha256, or by its candidate's id: the newest artifact of that candidate is meant."""
    candidates = candidates_named(reader, prefix)
    named_itself = reader.named("artifacts_named", prefix=prefix).to_pylist()
    found = {row["artifact_sha256"]: (row["candidate_id"], row["subject"]) for row in reversed(named_itself)}
    found |= {item.artifact_sha256: (item.candidate_id, item.subject) for item in candidates if item.artifact_sha256}
    if not found:
        raise Refusal(
            f"{prefix!r} names no artifact of this store",
            limit=_KINDS_OF_NAME,
            next_step='"farm report sweep" lists artifacts',
        )
    if len(found) > 1:
        raise several(prefix, "artifacts", [(sha256[:SHOWN_DIGITS], subject) for sha256, (_, subject) in found.items()])
    ((sha256, (candidate_id, _)),) = found.items()
    return sha256, candidate_id


def _submitted(reader: Reader, candidate_id: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    rows = reader.named("explain_submitted", candidate_id=candidate_id).to_pylist()
    return (rows[0]["submitted"], json.loads(rows[0]["pass_digests"] or "{}")) if rows else ({}, {})
