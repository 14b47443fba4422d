"""What the C library does with memory that torch gives back: it is kept, where the process is the gate's own.

An oracle runs one program some twenty times, and each run takes and frees the same large tensors. Given back to the
kernel in between, every page of them is faulted in again: 7,000 to 13,000 faults a run, a tenth of its time. Invariant:
nothing but time hangs on this; where the C library is another one nothing is changed.
"""

from __future__ import annotations

import ctypes

# malloc.h: from which size on a block is mapped by itself, and how much free memory at the top of the heap is kept.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
# The largest threshold that every version of glibc takes, and more than any oracle frees at once.
_MAPPED_FROM_BYTES, _KEPT_BYTES = 32 << 20, 1 << 30


def keep_freed() -> None:
    """For the rest of the process: it holds what its largest run held until it ends."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
