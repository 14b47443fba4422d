"""Children of the process that proves the gate: one for a single computation, and many side by side.

Invariant: the process that forks has imported what its children need and computed nothing. Threads of a computation do
not survive a fork, and what a faulty program leaves behind in a process must not reach the next.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")
SECONDS = 300
PROGRESS_SECONDS = 20.0


@dataclass(frozen=True)
class Ended(Generic[Answer]):
    """What a child computed. ``death`` says how it ended where it left nothing."""

    answer: Answer | None
    death: str = ""


def apart(function: Callable[..., Answer], *arguments: Any, seconds: int = SECONDS) -> Ended[Answer]:
    """``function(*arguments)`` in a forked child, which is ended after ``seconds``. What it raises is printed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _computed(function, arguments, seconds, reading, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        left = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        return Ended(None, f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")
    return Ended(pickle.loads(left))


def _computed(
    function: Callable[..., Any], arguments: tuple[Any, ...], seconds: int, reading: int, writing: int
) -> None:
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the parent's handler is no concern of the child
        signal.alarm(seconds)
        os.close(reading)
        answer = pickle.dumps(function(*arguments))
        with os.fdopen(writing, "wb") as stream:
            stream.write(answer)
        code = 0
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
        os._exit(code)


def side_by_side(
    function: Callable[[Job], Answer], jobs: Iterable[Job], workers: int, what: str
) -> Iterator[tuple[Job, Answer]]:
    """Every job and its answer, as they come. Says every ``PROGRESS_SECONDS`` how far it is."""
    asked = list(jobs)
    started = said = time.monotonic()
    done = 0
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        waiting: dict[Future[Answer], Job] = {pool.submit(function, job): job for job in asked}
        while waiting:
            ready, _ = wait(waiting, timeout=PROGRESS_SECONDS, return_when=FIRST_COMPLETED)
            for future in ready:
                done += 1
                yield waiting.pop(future), future.result()
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"  {what}: {done} of {len(asked)} in {said - started:.0f} s", flush=True)
