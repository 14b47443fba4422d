"""Files in a folder that a program under judgement can write to: it may have left anything there.

Invariant: reading keeps nobody waiting, as a FIFO or a device would; writing goes through no link to anything else.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """A file for reading. Raises OSError where there is none, or something that is no file."""
    # Without waiting for whoever writes to a FIFO.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path.name} is no regular file")
    return os.fdopen(descriptor, "rb")


def removed(path: Path) -> None:
    """Whatever lies there: a file, a link (and not what it leads to), or a folder with all that it holds."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def written_anew(path: Path, text: str) -> None:
    """A new file, its folder made again where somebody took that away or closed it."""
    folder = path.parent
    if folder.is_symlink() or not folder.is_dir():
        removed(folder)
        folder.mkdir(parents=True)
    folder.chmod(0o700)
    removed(path)
    with path.open("x") as stream:
        stream.write(text)
