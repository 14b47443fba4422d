"""The file that a case's expectations are kept in, shared by the candidates of a program, of a known sha256.

The subject runs between the two readings of this file and may be able to write to it, so a reader asks for the sha256
that it was told and takes nothing else. Files, and a folder of them, are read-only except while a judge writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import expectation
from tensorfarm.gate.expectation import Expectation

Expectations = dict[str, tuple[Expectation, ...]]
Cotangents = dict[str, tuple[Mapping[int, torch.Tensor], ...]]

_FILE, _FOLDER, _OPEN_FOLDER = 0o444, 0o555, 0o755


@dataclass(frozen=True)
class OracleFile:
    """``shared`` files lie in a folder that holds nothing else, and that is closed with them."""

    path: Path
    shared: bool

    def believed(
        self,
        sha256: str,
        compute: Callable[[], Expectations],
        wants: Callable[[str, int], bool] = lambda name, number: True,
    ) -> Expectations:
        """The expectations with these bytes, of calls that are wanted. Where the file is gone or holds others it is
        computed and put right."""
        found = self._read(sha256, wants)
        if found is None:
            found = compute()
            with self._open_folder():
                self._saved(found)
        return found

    def kept(self, compute: Callable[[], Expectations]) -> tuple[Cotangents, str, bool]:
        """The calls' cotangents, the sha256 that ``believed`` is to be told, and whether the file was there. One that
        cannot be read is replaced; the rest of the file is read and proved by who compares with it."""
        try:
            return *expectation.load_cotangents(self.path), True
        except Refusal:
            made = compute()
        with self._open_folder():
            try:
                # Another judge of the same program was first. It has told its subject what it wrote, so that stands.
                return *expectation.load_cotangents(self.path), False
            except Refusal:
                sha256 = self._saved(made)
        return {name: tuple(call.cotangents for call in calls) for name, calls in made.items()}, sha256, False

    def put(self, made: Expectations) -> None:
        """Keep what was computed for those who ask for it later, where others can find it."""
        if self.shared:
            with self._open_folder():
                self._saved(made)

    def _read(self, sha256: str, wants: Callable[[str, int], bool]) -> Expectations | None:
        try:
            return expectation.load(self.path, sha256, wants)
        except Refusal:
            return None

    def _saved(self, made: Expectations) -> str:
        sha256 = expectation.save(self.path, made)
        self.path.chmod(_FILE)
        return sha256

    @contextmanager
    def _open_folder(self) -> Generator[None]:
        """One judge at a time writes, so that none closes the folder on another."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.shared:
            yield
            return
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.fchmod(descriptor, _OPEN_FOLDER)
            yield
        finally:
            os.fchmod(descriptor, _FOLDER)
            os.close(descriptor)
