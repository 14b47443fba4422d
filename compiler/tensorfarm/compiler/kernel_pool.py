"""C++ kernels that were built on this host before: the C++ compiler is asked once for each, not once a candidate.

Inductor names a library by the hash of its source and its command line, so equal names are equal kernels as long as
compiler and headers are the same: a pool belongs to one toolchain. Candidates of one program share most kernels, and
the probes of a bisection nearly all. What a compilation decided is not answered from here: every graph is lowered anew.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch._inductor.cpp_builder import CppBuilder

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.inductor_runtime import build_root

_LIBRARY = ".so"


def kernel_pool(toolchain: Mapping[str, str]) -> Path:
    """The folder of kernels built with ``toolchain`` (versions by name)."""
    return build_root() / f"kernels-{sha256_json(dict(toolchain))[:16]}"


@contextmanager
def reusing_kernels(pool: Path) -> Generator[None]:
    """In this block a library that the pool holds is linked instead of built, and one that is built is kept there."""
    pool.mkdir(parents=True, exist_ok=True)
    original = CppBuilder.build
    setattr(CppBuilder, "build", _pooled(original, pool))  # noqa: B010 (its type is that of the method)
    try:
        yield
    finally:
        setattr(CppBuilder, "build", original)  # noqa: B010


def _pooled(original: Callable[..., Any], pool: Path) -> Callable[..., Any]:
    def build(self: CppBuilder) -> None:
        target = Path(self.get_target_file_path())
        if target.suffix != _LIBRARY:
            original(self)
            return
        known = pool / target.name
        with contextlib.suppress(FileNotFoundError):
            os.link(known, target)
            return
        original(self)
        with contextlib.suppress(FileExistsError):
            os.link(target, known)

    return build
