"""Bundles: one file of named members whose bytes depend on nothing but the members. Its address is its sha256.

A zip without compression, members in name order, fixed time stamps and modes, so that equal content is equal bytes.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.refusal import Refusal

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE, _EXECUTABLE_MODE = 0o100644, 0o100755


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
    """A bundle opened for reading, after its sha256 was checked against the one asked for."""

    def __init__(self, path: Path, expected_sha256: str | None = None) -> None:
        if not path.is_file():
            raise CorruptBundle(f"bundle {path.name} does not exist", next_step="compile or capture it again")
        self.path = path
        self.sha256 = sha256_file(path)
        if expected_sha256 is not None and self.sha256 != expected_sha256:
            raise CorruptBundle(
                f"bundle {path.name} has sha256 {self.sha256[:12]}",
                limit=f"{expected_sha256[:12]} was asked for",
                next_step="delete it and compile or capture again",
            )
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise CorruptBundle(f"{path.name} is not a bundle", next_step="compile or capture it again") from None

    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        """A member's bytes. Raises CorruptBundle where there is none or its checksum is wrong."""
        try:
            return self._archive.read(name)
        except KeyError:
            raise CorruptBundle(f"bundle {self.path.name} has no member {name}") from None
        except zipfile.BadZipFile:
            raise CorruptBundle(
                f"member {name} of bundle {self.path.name} is damaged", next_step="compile or capture it again"
            ) from None

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
