"""What "on disk" means: a file's bytes, and the entry of its folder that names it, have both reached the device."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Flush one file, or one folder's entries. Raises OSError where the device fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
