"""The file that a case's expectations are kept in, shared by the candidates of a program: bytes of a known sha256.

The subject runs between the two readings of this file and may be able to write to it, so a reader asks for the sha256
that it was told and takes nothing else. Files, and a folder of them, are read-only except while a judge writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import expectation
from tensorfarm.gate.expectation import Expectation

Expectations = dict[str, tuple[Expectation, ...]]

_FILE, _FOLDER, _OPEN_FOLDER = 0o444, 0o555, 0o755


@dataclass(frozen=True)
class OracleFile:
    """``shared`` files lie in a folder that holds nothing else, and that is closed with them."""

    path: Path
    shared: bool

    def believed(self, sha256: str, compute: Callable[[], Expectations]) -> Expectations:
        """The expectations with these bytes. Where the file is gone or holds others it is computed and put right."""
        return self._read(sha256) or self._written(compute)[0]

    def kept(self, compute: Callable[[], Expectations]) -> tuple[Expectations, str, bool]:
        """The expectations, their bytes' sha256, and whether it was there. A file that cannot be read is replaced."""
        if self.path.is_file():
            sha256 = sha256_file(self.path)
            found = self._read(sha256)
            if found is not None:
                return found, sha256, True
        return *self._written(compute), False

    def _read(self, sha256: str) -> Expectations | None:
        try:
            return expectation.load(self.path, sha256)
        except Refusal:
            return None

    def _written(self, compute: Callable[[], Expectations]) -> tuple[Expectations, str]:
        made = compute()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open_folder():
            sha256 = expectation.save(self.path, made)
            self.path.chmod(_FILE)
        return made, sha256

    @contextmanager
    def _open_folder(self) -> Generator[None]:
        """One judge at a time writes, so that none closes the folder on another."""
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
