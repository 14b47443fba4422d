"""Approved identities: the semantic hashes that a person signed off.

``programs.lock`` holds them by program, ``programs.lock.d`` the canonical text of each. The text is kept so that a
refusal can show the first difference, and so that a review of the lock shows what changed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tensorfarm.contract.canonical import first_difference
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal

FORMAT = "tensorfarm.lock/1"
LOCK_NAME = "programs.lock"


@dataclass(frozen=True)
class Approvals:
    """A lock file, which need not exist: then nothing is approved and nothing is refused."""

    path: Path

    def hashes(self) -> dict[str, str]:
        """Approved semantic hash by program source. Refuses a lock file of another format."""
        if not self.path.is_file():
            return {}
        try:
            value = json.loads(self.path.read_text())
            if value["format"] != FORMAT:
                raise KeyError(value["format"])
            return dict(value["programs"])
        except (ValueError, KeyError, TypeError) as error:
            raise Refusal(
                f"{self.path} is no lock file: {error}", limit=FORMAT, next_step='run "farm approve PROGRAM" again'
            ) from None

    def name_of(self, source: str) -> str:
        """What the lock calls a program: its factory, or an export file's path from the lock's folder."""
        if not source.endswith(".pt2"):
            return source
        return Path(os.path.relpath(Path(source).resolve(), self.path.resolve().parent)).as_posix()

    def approve(self, source: str, program: Program) -> str | None:
        """Write the hash and canonical text of the program captured from ``source``.

        Returns the hash that was approved before, if any.
        """
        approved, name = self.hashes(), self.name_of(source)
        before = approved.get(name)
        approved[name] = program.semantic_hash
        place = self._text_of(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(place, program.canonical)
        lock = {"format": FORMAT, "programs": dict(sorted(approved.items()))}
        _replace(self.path, json.dumps(lock, indent=2) + "\n")
        return before

    def refusal(self, source: str, semantic_hash: str, canonical: str) -> str | None:
        """Why a captured program is not the approved one; None where it is, or where none was approved."""
        name = self.name_of(source)
        approved = self.hashes().get(name)
        if approved is None or approved == semantic_hash:
            return None
        place = self._text_of(name)
        difference = first_difference(place.read_text(), canonical) if place.is_file() else "its text is missing"
        return (
            f"{name} was approved as {approved[:12]} and captured as {semantic_hash[:12]}: {difference}; "
            f'review the change and run "farm approve {name}"'
        )

    def _text_of(self, name: str) -> Path:
        return self.path.with_name(self.path.name + ".d") / (name.replace(":", "__").replace("/", "_") + ".txt")


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.rename(path)
