"""The processes below a process, what memory they hold, and how to end them all.

Read from ``/proc`` in one scan. A tree is whole only under a subreaper: a child of the farm is one, so whatever it
starts stays below it while it lives, and falls to the warm parent once it is dead.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence

_HELD = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


def children_by_parent() -> Mapping[int, Sequence[int]]:
    """Every process of this machine under its parent's pid."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            found[parent].append(int(name))
    return found


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # The name of the program is in brackets and may itself hold brackets and spaces.
            return int(stream.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def tree(root: int, by_parent: Mapping[int, Sequence[int]]) -> list[int]:
    """``root`` and all below it, parents before children."""
    found = [root]
    for pid in found:
        found.extend(by_parent.get(pid, ()))
    return found


def held_bytes(pids: Sequence[int]) -> int:
    """Memory that only these processes keep in use: anonymous, shared and swapped, files' pages left out."""
    return sum(map(_held_bytes, pids))


def _held_bytes(pid: int) -> int:
    return status_bytes(pid, _HELD)


def status_bytes(pid: int, fields: Sequence[bytes]) -> int:
    """Sum of the named fields of ``/proc/PID/status``; 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            lines = [line.split() for line in stream]
    except OSError:
        return 0
    return sum(int(line[1]) << 10 for line in lines if line and line[0] in fields)


def kill_tree(root: int) -> None:
    """SIGKILL the process group led by ``root`` and everything below it. Reaps nothing."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    for pid in tree(root, children_by_parent()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
