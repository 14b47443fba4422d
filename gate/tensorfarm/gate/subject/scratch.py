"""Where a session lays what it makes on disk: below the run's folder, which whoever asked for the run removes.

A subject may die at any moment, and a forked one ends without tidying up: what lay elsewhere would stay for good.
Invariant: Python's own temporary folder stays what it was, for the build path of an artifact may hang on it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SCRATCH = "scratch"
_VARIABLE = "TMPDIR"


@contextmanager
def scratch_in(folder: Path) -> Generator[None]:
    """Within the block ``new_folder`` and native code, as a loader that unpacks its package, write below ``folder``."""
    place, before = folder / SCRATCH, os.environ.get(_VARIABLE)
    place.mkdir(exist_ok=True)
    tempfile.gettempdir()  # asked once, and kept by Python from then on
    os.environ[_VARIABLE] = str(place.resolve())
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def new_folder(purpose: str) -> Path:
    """A folder that lasts as long as the session, or as the temporary folder where there is no session."""
    return Path(tempfile.mkdtemp(prefix=f"tensorfarm-{purpose}-", dir=os.environ.get(_VARIABLE)))
