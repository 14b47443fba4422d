"""What one process of a gate run may take: time, since code of the user's may never come back, and memory, since it may
take all that others need.

Invariant: a limit of memory is one process's own; nothing is reserved for it.
"""

from __future__ import annotations

import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal, shown

# Of each process by itself: subject, original with its oracle, capture.
SECONDS = 600.0
MOST_SECONDS = 365 * 24 * 3600
_MEMORY = Path("/proc/meminfo")
_GIB = 2**30
# As Python and torch say it, in one line after the error's class.
_RAN_OUT = re.compile(r"^MemoryError|^\w*OutOfMemoryError|can't allocate memory|std::bad_alloc")


@dataclass(frozen=True)
class Limits:
    """``memory_bytes`` is None where nobody limits it, ``seconds`` None where somebody else does."""

    seconds: float | None = SECONDS
    memory_bytes: int | None = None

    def hold(self, pid: int) -> None:
        """Limit the memory of a process that was just started; what it starts is limited alike, each by itself.

        Where it is limited further already, that stands. Elsewhere than on Linux nothing is limited.
        """
        if self.memory_bytes is None or sys.platform != "linux":
            return
        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        most = self.memory_bytes if hard == resource.RLIM_INFINITY else min(self.memory_bytes, hard)
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))

    def __str__(self) -> str:
        memory = "" if self.memory_bytes is None else f"{self.memory_bytes / _GIB:.1f} GiB"
        return " and ".join(part for part in (self.time, memory) if part)

    @property
    def time(self) -> str:
        return "" if self.seconds is None else f"{self.seconds:g} seconds"


UNLIMITED, DEFAULT_LIMITS = Limits(None), Limits()


def ran_out_of_memory(error: str) -> bool:
    return bool(_RAN_OUT.search(error))


def limits_here(seconds: float = SECONDS) -> Limits:
    """Of a run that starts now on this machine: the memory that nobody else uses. Refuses what is no such time."""
    _refuse_no_time(seconds)
    told = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMORY.read_text(), re.MULTILINE) if _MEMORY.is_file() else None
    return Limits(seconds, int(told[1]) * 1024 if told else None)


def _refuse_no_time(seconds: Any) -> None:
    # NaN is neither above nor below anything: as a limit it would never be reached.
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 0 < seconds <= MOST_SECONDS:
        limit = f"a number above 0 and at most {MOST_SECONDS}"
        raise Refusal(f"seconds is {shown(seconds)}", limit=limit, next_step="correct seconds")
