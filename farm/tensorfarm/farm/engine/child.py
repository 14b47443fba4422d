"""The forked child: limits itself, runs one function, leaves one report, and is gone.

Invariant: whatever the function does ends this process only. The report is renamed into place as the last act before
``os._exit(0)``; a child that dies before that leaves none. Nothing here imports Ray.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine.process_tree import status_bytes

REPORT, PRINTED = "report.json", "printed"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_COLLECT_AFTER = (50_000, 20, 50)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def become(order: Mapping[str, Any], parent: int, folder: Path) -> NoReturn:
    """Turn the process just forked from ``parent`` into the child that carries out ``order``. Never returns."""
    status = 1
    try:
        _leave_the_parent(parent)
        _redirect(folder / PRINTED)
        _limit_memory(order["memory_bytes"])
        # A short life that allocates much and drops little: at the usual threshold a compilation collects for a tenth
        # of its time.
        gc.set_threshold(*_COLLECT_AFTER)
        _prepare(order["request"], order["threads"])
        _write(folder, _report(order["function"], order["request"]))
        status = 0
    except SystemExit as stop:
        status = _exit_status(stop.code)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _leave_the_parent(parent: int) -> None:
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_PDEATHSIG, int(signal.SIGKILL)), (_PR_SET_CHILD_SUBREAPER, 1)):
        if libc.prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    if os.getppid() != parent:
        # The parent died between the fork and the request to be told of it.
        os._exit(1)


def _redirect(printed: Path) -> None:
    """Append, so that a warm parent may cut off what a talkative child printed."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable(sys.stderr)


def _limit_memory(memory_bytes: int) -> None:
    """One process's own mappings are limited here; the whole tree's memory is watched by the warm parent.

    What the parent had mapped before the fork (stacks, arenas, modules) is not the step's doing: it comes on top.
    """
    inherited = status_bytes(os.getpid(), (b"VmData:",))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes + inherited, memory_bytes + inherited))


def _prepare(request: Mapping[str, Any], threads: int) -> None:
    os.environ.update({name: str(threads) for name in _THREAD_VARIABLES})
    os.environ.update(request.get("env", {}))
    sys.path[:0] = request.get("python_path", [])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def _report(function: str, request: Mapping[str, Any]) -> bytes:
    try:
        module, _, name = function.partition(":")
        value = getattr(importlib.import_module(module), name)(dict(request))
        if not isinstance(value, dict):
            raise TypeError(f"{function} returned {type(value).__name__}, a dict is expected")
        return json.dumps({"status": "completed", "value": value}).encode()
    except SystemExit:
        raise
    except BaseException as problem:
        return json.dumps(_described(problem)).encode()


def _described(problem: BaseException) -> dict[str, Any]:
    return {
        "status": "raised",
        "kind": type(problem).__name__,
        "message": _text(problem),
        "refusal": _refusal(problem) if isinstance(problem, Refusal) else {},
        "traceback": "".join(traceback.format_exception(problem)),
    }


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception as unprintable:
        return f"a {type(problem).__name__} whose text cannot be had: {type(unprintable).__name__}"


def _refusal(refusal: Refusal) -> dict[str, Any]:
    classes = [kind.__name__ for kind in type(refusal).__mro__]
    return {
        "fact": refusal.fact,
        "limit": refusal.limit,
        "next_step": refusal.next_step,
        "exit_code": refusal.exit_code,
        "is_illegal_graph": "IllegalGraph" in classes,
        "classes": classes,
    }


def _write(folder: Path, report: bytes) -> None:
    partial = folder / f"{REPORT}.partial"
    partial.write_bytes(report)
    partial.rename(folder / REPORT)


def _exit_status(code: object) -> int:
    """As the interpreter would: nothing is 0, a number is itself, a text is printed and 1."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1
