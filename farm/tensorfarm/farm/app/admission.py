"""The artifact cache: what may enter, and what may answer for a candidate.

Nothing enters before the gate has passed these very bytes, and nothing answers whose bytes are gone, altered, or were
judged by another gate.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfarm.contract.bundle import CorruptBundle
from tensorfarm.contract.digest import sha256_file
from tensorfarm.farm.store.disk import sync
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


@dataclass(frozen=True)
class Admitted:
    """An artifact that passed. ``measured`` says whether it was timed."""

    artifact_sha256: str
    gate_run_id: str
    sweep_id: str
    measured: bool


@dataclass(frozen=True)
class ArtifactCache:
    """``gate_version`` is the running gate's: a verdict of another gate is no verdict of this one."""

    layout: StoreLayout
    gate_version: str

    def admit(self, artifact_sha256: str) -> Path:
        """Let gated bytes into the cache; harmless where they are there already. Refuses bytes that changed since.

        They stay among the built ones under a second name: another driver may be judging the same bytes there.
        """
        built = self.layout.built / f"{artifact_sha256}.artifact"
        admitted = self.layout.artifacts / built.name
        if admitted.is_file():
            return admitted
        if not built.is_file() or sha256_file(built) != artifact_sha256:
            raise CorruptBundle(
                f"artifact {artifact_sha256[:12]} changed or vanished after it was gated",
                next_step='run "farm sweep" again: it will be compiled and gated anew',
            )
        with contextlib.suppress(FileExistsError):
            os.link(built, admitted)
        sync(admitted.parent)
        return admitted

    def answers(self, candidate_ids: Sequence[str]) -> Mapping[str, Admitted]:
        """Which of these candidates were admitted before, by candidate id; bytes are hashed before they are trusted."""
        found: dict[str, Admitted] = {}
        for row in self._rows(candidate_ids):
            place = self.layout.artifacts / f"{row['artifact_sha256']}.artifact"
            if row["gate_version"] != self.gate_version or not place.is_file():
                continue
            if sha256_file(place) != row["artifact_sha256"]:
                place.rename(place.with_suffix(".quarantined"))
                continue
            found[row["candidate_id"]] = Admitted(
                row["artifact_sha256"], row["gate_run_id"], row["sweep_id"], row["measurements"] != "[]"
            )
        return found

    def _rows(self, candidate_ids: Sequence[str]) -> list[dict[str, Any]]:
        with Reader(self.layout) as reader:
            return reader.named("admitted", candidate_ids=list(candidate_ids)).to_pylist()
