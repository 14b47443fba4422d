"""Approving a program: capture it here and now, and write down what it is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tensorfarm.contract.approve import Approvals
from tensorfarm.contract.capture import capture


@dataclass(frozen=True)
class Approval:
    semantic_hash: str
    before: str | None


def approve_program(source: str, lock: Path, python_path: tuple[str, ...] = ()) -> Approval:
    """Capture ``source`` and write its semantic hash and canonical text beside ``lock``. Raises Refusal."""
    sys.path[:0] = [str(Path(folder).resolve()) for folder in (*python_path, ".")]
    place = str(Path(source).resolve()) if source.endswith(".pt2") else source
    program = capture(place)
    return Approval(program.semantic_hash, Approvals(lock).approve(place, program))
