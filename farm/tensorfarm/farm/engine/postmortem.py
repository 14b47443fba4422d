"""What a child's death means. Pure: exit status, what was done to it and what it left, to a ``StepOutcome``.

A child that ran out of memory is said to have, however it noticed: killed over its limit, a MemoryError, an allocator's
exception, or an abort from ``std::bad_alloc``.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfarm.farm.engine.job import StepOutcome

_OUT_OF_MEMORY = re.compile(
    r"std::bad_alloc|can't allocate memory|cannot allocate memory|out of memory|virtual memory exhausted", re.IGNORECASE
)
_OUT_OF_MEMORY_CLASSES = {"MemoryError", "OutOfMemoryError"}
_ALLOCATOR_CLASSES = {"RuntimeError", "OSError", "CppCompileError", "AcceleratorError"}
_MIB = 1 << 20


@dataclass(frozen=True)
class Death:
    """All that is known of a dead child. ``killed_for`` is timeout, out_of_memory or empty.

    ``report`` is what the child wrote last of all, empty if it never came to that; ``printed`` the end of its output.
    """

    wait_status: int
    killed_for: str
    report: bytes
    printed: str
    seconds: float
    peak_bytes: int
    limit_seconds: float
    limit_bytes: int


def outcome_of(death: Death) -> StepOutcome:
    """Classify. A report counts only from a child that exited with 0 and was not killed."""
    if death.killed_for:
        return _died(death, death.killed_for, _limit_message(death))
    code = os.waitstatus_to_exitcode(death.wait_status)
    if code < 0:
        name = _signal_name(-code)
        out_of_memory = -code == signal.SIGABRT and _OUT_OF_MEMORY.search(death.printed)
        return _died(
            death, "out_of_memory" if out_of_memory else "signal", f"died of {name}{_last_line(death.printed)}"
        )
    report = _parsed(death.report)
    if code == 0 and report:
        return _reported(death, report)
    said = " without an answer" if code == 0 else ""
    return _died(death, "exit", f"exited with status {code}{said}{_last_line(death.printed)}")


def _parsed(report: bytes) -> Mapping[str, Any]:
    """The report, or nothing: a candidate can write into its own folder, and must not bring its parent down by it."""
    try:
        parsed = json.loads(report)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("status") in ("completed", "raised") else {}


def _reported(death: Death, report: Mapping[str, Any]) -> StepOutcome:
    if report["status"] == "completed":
        return StepOutcome("completed", report["value"], seconds=death.seconds, peak_bytes=death.peak_bytes)
    kind, message = report["kind"], report["message"]
    allocator = kind in _ALLOCATOR_CLASSES and _OUT_OF_MEMORY.search(message)
    if kind in _OUT_OF_MEMORY_CLASSES or allocator:
        text = f"{kind} under a limit of {death.limit_bytes // _MIB} MiB: {message}"
        return _died(death, "out_of_memory", text, report["traceback"])
    return StepOutcome(
        "raised",
        kind=kind,
        message=message,
        refusal=report["refusal"],
        traceback=report["traceback"],
        seconds=death.seconds,
        peak_bytes=death.peak_bytes,
    )


def _died(death: Death, kind: str, message: str, traceback: str = "") -> StepOutcome:
    return StepOutcome(
        "died",
        kind=kind,
        message=message,
        traceback=traceback or death.printed,
        seconds=death.seconds,
        peak_bytes=death.peak_bytes,
    )


def _limit_message(death: Death) -> str:
    if death.killed_for == "timeout":
        return f"killed after {death.seconds:.1f} s (limit {death.limit_seconds:g} s)"
    return f"killed holding {death.peak_bytes // _MIB} MiB (limit {death.limit_bytes // _MIB} MiB)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(printed: str) -> str:
    """What came before the interpreter's own account of a fatal error: that one is in the traceback."""
    said = printed.partition("Fatal Python error:")[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"; it last printed: {lines[-1][:200]}" if lines else ""
