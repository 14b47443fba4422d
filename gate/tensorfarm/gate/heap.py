"""What the C library does with memory that torch asks for and gives back, where the process is the gate's own.

Each step of a gate run is a new process, and pays for a page when it first touches it: 5,000 to 15,000 faults a step, a
third of its time. And an oracle runs one program some twenty times, each run of which takes and frees the same large
tensors. So large blocks lie together in pages of two megabytes, and what is freed is kept. Invariant: nothing but time
hangs on this, and what a program reads that it never wrote; where the C library or the kernel is another one nothing is
changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager

# malloc.h: from which size on a block is mapped by itself, how much free memory at the top of the heap is kept, and how
# much more than what is asked for is taken there.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD, _M_TOP_PAD = -3, -1, -2
# The largest threshold that every version of glibc takes, and more than any oracle frees at once.
_MAPPED_FROM_BYTES, _KEPT_BYTES = 32 << 20, 1 << 30
# Addresses alone, until they are touched.
_RESERVED_BYTES, _HUGE_PAGE_BYTES = 256 << 20, 2 << 20
_MADV_HUGEPAGE = 14
# What is given out is filled with this byte's complement, 0x7F: 3.4e38 in float32 and bfloat16, NaN in float16.
_M_PERTURB, _FILLED_WITH_COMPLEMENT_OF = -6, 0x80


def prepared() -> None:
    """For the rest of the process: it holds what its largest run held until it ends."""
    libc = ctypes.CDLL(None)
    if not (hasattr(libc, "mallopt") and hasattr(libc, "madvise")):
        return
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.argtypes, libc.madvise.argtypes = (ctypes.c_void_p,), (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_M_TOP_PAD, _RESERVED_BYTES)
    # Larger than what is free at the top, so that the heap grows by the reserve, and smaller than what is mapped apart.
    block = libc.malloc(_MAPPED_FROM_BYTES // 2)
    if block is not None:
        first = -(-block // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
        libc.madvise(first, _RESERVED_BYTES, _MADV_HUGEPAGE)
        libc.free(block)


@contextmanager
def filled() -> Generator[None]:
    """Within the block new memory holds what nobody takes for an answer: a fresh page's zeros may be the right one."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_M_PERTURB, _FILLED_WITH_COMPLEMENT_OF)
    try:
        yield
    finally:
        libc.mallopt(_M_PERTURB, 0)
