"""One measurement a host: a kernel lock that every engine of this machine asks for, and that ends with its holder.

Two engines know nothing of each other, and each believes that its exclusive job has the node to itself.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "tensorfarm-measuring.lock"


@contextmanager
def host_to_itself() -> Generator[None]:
    """Wait until nobody else on this host measures, then hold the lock. A child inherits no hold on it by ``exec``."""
    descriptor = _opened(Path(tempfile.gettempdir()) / LOCK_NAME)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _opened(path: Path) -> int:
    """The lock file, made where it is missing. One that is there is only read: it may belong to another user."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
