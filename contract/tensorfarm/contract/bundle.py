"""Bundles: one file of named members whose bytes depend on nothing but the members. Its address is its sha256.

A zip without compression, members in name order, fixed time stamps and modes, so that equal content is equal bytes.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tensorfarm.contract.digest import sha256_bytes, sha256_file
from tensorfarm.contract.refusal import Refusal

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE, _EXECUTABLE_MODE = 0o100644, 0o100755
_NAME_LENGTH_OFFSET = 26  # in a zip's local header, which ends four bytes later with the name and an extra field


class CorruptBundle(Refusal):
    """The bytes are not the ones that were asked for, or are no bundle."""


def pack(path: Path, members: Mapping[str, bytes | Path]) -> str:
    """Write a bundle atomically and return its sha256. A member is bytes, or a file whose bytes are taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(members):
                content = members[name]
                executable = isinstance(content, Path) and os.access(content, os.X_OK)
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.create_system = 3
                entry.external_attr = (_EXECUTABLE_MODE if executable else _FILE_MODE) << 16
                archive.writestr(entry, content.read_bytes() if isinstance(content, Path) else content)
        sha256 = sha256_file(partial)
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return sha256


class Bundle:
    """A bundle opened for reading, after its sha256 was checked against the one asked for.

    ``members`` are sha256 by name, told by whoever has proved the whole file: such a member is proved by itself, and
    the whole file only when another one is read.
    """

    def __init__(
        self, path: Path, expected_sha256: str | None = None, members: Mapping[str, str] | None = None
    ) -> None:
        if not path.is_file():
            raise CorruptBundle(f"bundle {path.name} does not exist", next_step="compile or capture it again")
        self.path = path
        self._expected, self._members = expected_sha256, dict(members or {})
        if not self._members:
            self._prove()
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise CorruptBundle(f"{path.name} is not a bundle", next_step="compile or capture it again") from None

    @cached_property
    def sha256(self) -> str:
        return sha256_file(self.path)

    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        """A member's bytes. Raises CorruptBundle where there is none or they are others."""
        wanted = self._members.get(name)
        if wanted is None:
            self._prove()
        try:
            found = self._archive.read(name)
        except KeyError:
            raise CorruptBundle(f"bundle {self.path.name} has no member {name}") from None
        except zipfile.BadZipFile:
            raise self._damaged(name) from None
        if wanted is not None and sha256_bytes(found) != wanted:
            raise self._damaged(name)
        return found

    @contextmanager
    def stream(self, name: str) -> Generator[BinaryIO]:
        """The file, opened where a member begins: for one that is too large to be held twice. It is not proved by a
        checksum of its own, so this is for a bundle that was asked for by its sha256."""
        self._prove()
        if self._expected is None:
            yield io.BytesIO(self.read(name))
            return
        try:
            entry = self._archive.getinfo(name)
        except KeyError:
            raise CorruptBundle(f"bundle {self.path.name} has no member {name}") from None
        with self.path.open("rb") as stream:
            stream.seek(entry.header_offset + _NAME_LENGTH_OFFSET)
            name_length, extra_length = struct.unpack("<HH", stream.read(4))
            stream.seek(name_length + extra_length, os.SEEK_CUR)
            yield stream

    def _prove(self) -> None:
        if self._expected is not None and self.sha256 != self._expected:
            raise CorruptBundle(
                f"bundle {self.path.name} has sha256 {self.sha256[:12]}",
                limit=f"{self._expected[:12]} was asked for",
                next_step="delete it and compile or capture again",
            )

    def _damaged(self, name: str) -> CorruptBundle:
        return CorruptBundle(
            f"member {name} of bundle {self.path.name} is damaged", next_step="compile or capture it again"
        )

    def extract(self, target: Path, prefix: str = "") -> None:
        """Write the members under ``prefix`` below ``target``, keeping the executable bit. Nothing lands outside."""
        for entry in self._archive.infolist():
            if not entry.filename.startswith(prefix):
                continue
            relative = PurePosixPath(entry.filename[len(prefix) :])
            if relative.is_absolute() or ".." in relative.parts:
                raise CorruptBundle(f"bundle {self.path.name} holds the path {entry.filename}, outside of itself")
            place = target / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.read(entry.filename))
            place.chmod((entry.external_attr >> 16) & 0o777)
