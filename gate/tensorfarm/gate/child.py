"""A child process watched to its end, for code that nobody here has written.

Invariant: it cannot keep whoever waits for it longer than it may live, fill a disk with what it prints, or leave behind
a process of its group; and what it prints is never taken for what it was asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.limits import UNLIMITED, Limits

_TAIL_BYTES = 4096
_LINE_LIMIT = 200
# A process that left the group may hold the pipe open for good.
_DRAIN_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ended:
    """``returncode`` is negative for a signal, None where the time ran out; ``said`` the last line that it printed to
    standard error; ``time`` how long it had."""

    returncode: int | None
    said: str
    time: str = ""

    @property
    def death(self) -> str:
        """How it died, in words: the signal's name or the exit code, and its last line."""
        said = f"; it last printed: {self.said}" if self.said else ""
        end = f"no answer within {self.time}" if self.returncode is None else _end_of(self.returncode)
        return f"{end}{said}"


def interpreter(module: str, call: str, python_path: Sequence[str]) -> list[str]:
    """The command of a fresh interpreter that carries out ``call``, an exit code, in a module of the gate. It searches
    ``python_path`` first, then what this one searches, so that children of an isolated one see no more than it does."""
    isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    code = f"import sys; sys.path[:] = {[*python_path, *sys.path]!r}; from tensorfarm.gate import child, {module}"
    return [sys.executable, *isolation, "-c", f"{code}; child.leave_with(lambda: {call})"]


def run_child(
    command: Sequence[str], limits: Limits = UNLIMITED, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run ``command`` within ``limits``, in a group of its own that ends with it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    assert process.stderr is not None
    tail = _Tail(process.stderr)
    returncode: int | None = None
    try:
        with contextlib.suppress(ProcessLookupError):
            limits.hold(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            returncode = process.wait(limits.seconds)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Ended(returncode, tail.last_line(), limits.time)


class _Tail:
    """Reads a pipe to its end, and keeps the end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._kept = pipe, b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._pipe:
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self._kept = (self._kept + part)[-_TAIL_BYTES:]

    def last_line(self) -> str:
        self._reader.join(_DRAIN_SECONDS)
        lines = self._kept.decode(errors="replace").split("\n")
        return next((line.strip()[:_LINE_LIMIT] for line in reversed(lines) if line.strip()), "")


def _end_of(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    # The kernel ends so whoever takes the last memory, and says it to nobody.
    return f"{name}, memory may have run out" if name == "SIGKILL" else name


def leave_with(step: Callable[[], int]) -> NoReturn:
    """In the child: carry out ``step`` and end the process with its exit code at once, whatever threads it has left.

    A parent that is killed takes it along: in a group of its own it hears of no terminal that was closed.
    """
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        code = step()
    except BaseException:
        # What a person needs of it is its last line. Somebody's code may have taken the stream away.
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def leave_refusal(place: Path, refusal: Refusal) -> int:
    """In the child: write the refusal to ``place`` and return its exit code."""
    told = {key: getattr(refusal, key) for key in ("fact", "limit", "next_step", "exit_code")}
    place.write_text(json.dumps({"refusal": told}))
    return refusal.exit_code


def refusal_in(place: Path) -> Refusal | None:
    """The refusal that a child left at ``place``; None where it left none."""
    told: dict[str, Any] = json.loads(place.read_text()) if place.is_file() else {}
    if "refusal" not in told:
        return None
    fields = dict(told["refusal"])
    return Refusal(fields.pop("fact"), **fields)
