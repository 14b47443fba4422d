"""Two sides of a comparison, each in a fresh process of its own, stepped in turn: ABBA, then BAAB.

Two Inductor artifacts cannot be loaded by one process, and one process's memory layout favours one side by luck: so
each round forks a fresh pair. Invariants: whoever calls has not run a tensor operation yet (its forks would hang); once
warmed up, both sides never run at the same time; samples stay in run order and none is dropped.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

WARM_UP_STEPS = 3
LEAST_SAMPLE_SECONDS = 1e-3
VISIT_SECONDS = 10e-3
_MOST_REPEATS = 1000
_MOST_A_VISIT = 5
_FEWEST_GROUPS = 2


@dataclass(frozen=True)
class Step:
    """``run`` does one step to its end; ``device`` is where."""

    run: Callable[[], object]
    device: str = "cpu"


@dataclass(frozen=True)
class Side:
    """``prepare`` runs in the side's own process: it loads whatever the step needs."""

    name: str
    prepare: Callable[[], Step]


@dataclass(frozen=True)
class Schedule:
    """``groups`` of four visits, two to each side, spread over ``rounds`` fresh pairs of processes.

    Where that would take more than ``seconds``, each round has fewer groups, but two at least.
    """

    groups: int
    rounds: int
    seconds: float = math.inf


@dataclass
class Samples:
    """Seconds a step by side, in run order, equally many of each group.

    ``first`` has one entry a round: the first step after loading.
    """

    seconds: dict[str, list[float]]
    first: dict[str, list[float]]
    device: str = "cpu"
    rounds: int = 0
    groups: int = 0


class SideFailed(Exception):
    """A side raised or died. ``kind`` is the exception's class; or ``signal`` or ``exit``, and ``code`` its number."""

    def __init__(self, side: str, kind: str, text: str, code: int = 0) -> None:
        super().__init__(f"{side}: {kind}: {text}")
        self.side, self.kind, self.text, self.code = side, kind, text, code


def paired(sides: tuple[Side, Side], schedule: Schedule) -> Samples:
    """Time two sides against each other. Raises SideFailed for the first side that raises or dies.

    A sample is the mean of as many steps as make a millisecond. A visit takes samples for ten milliseconds, one at
    least and five at most: under load, one alone mostly shows the scheduler. Both sides take equally many.
    """
    names = tuple(side.name for side in sides)
    found = Samples({name: [] for name in names}, {name: [] for name in names})
    shares = [len(range(number, schedule.groups, schedule.rounds)) for number in range(schedule.rounds)]
    visit: _Visit | None = None
    for number in range(schedule.rounds):
        with _pair(sides) as pair:
            step_seconds = _warmed_up(pair, found)
            if visit is None:
                visit = _visit(step_seconds)
                shares = _affordable(shares, step_seconds * visit.samples * visit.repeats, schedule)
            for process in pair:
                process.timed(visit)
            for group in range(shares[number]):
                # The order turns over from group to group, and the first one from round to round.
                ahead, behind = pair if (number + group) % 2 == 0 else pair[::-1]
                for process in (ahead, behind, behind, ahead):
                    found.seconds[process.name].extend(process.timed(visit))
        found.rounds += 1
        found.groups += shares[number]
    return found


def _warmed_up(pair: Sequence[_Process], found: Samples) -> float:
    """Run first and warm-up steps; seconds of one step of the faster side.

    The first steps, which may take seconds to find their code, run side by side: an artifact's and a short one of
    eager, or two of artifacts, whose first steps are of no interest.
    """
    for process in pair:
        found.device = process.wait_until_loaded()
    for process in pair:
        process.ask(_Visit(1, 1))
    for process in pair:
        found.first[process.name].extend(process.seconds())
    return min(min(process.timed(_Visit(WARM_UP_STEPS, 1))) for process in pair)


def _visit(step_seconds: float) -> _Visit:
    repeats = min(_MOST_REPEATS, max(1, math.ceil(LEAST_SAMPLE_SECONDS / max(step_seconds, 1e-9))))
    return _Visit(min(_MOST_A_VISIT, max(1, math.ceil(VISIT_SECONDS / (step_seconds * repeats)))), repeats)


def _affordable(shares: Sequence[int], visit_seconds: float, schedule: Schedule) -> list[int]:
    """Decided before the first sample is taken: when to stop must not depend on what was seen."""
    most = max(_FEWEST_GROUPS, schedule.seconds / schedule.rounds / (4 * visit_seconds))
    return [int(min(share, most)) for share in shares]


@contextmanager
def _pair(sides: tuple[Side, Side]) -> Generator[list[_Process]]:
    with ExitStack() as stack:
        pair: list[_Process] = []
        for side in sides:
            pair.append(stack.enter_context(_forked(side, [process.connection for process in pair])))
        yield pair


@dataclass(frozen=True)
class _Visit:
    """``samples`` in a row, each the mean of ``repeats`` steps."""

    samples: int
    repeats: int


class _Process:
    """The other end of one side: says how many steps to run, hears how long they took."""

    def __init__(self, name: str, pid: int, connection: socket.socket) -> None:
        self.name, self.pid, self.connection = name, pid, connection
        self._is_reaped = False
        self._lines = connection.makefile("rb")

    def wait_until_loaded(self) -> str:
        """The device of the side's step."""
        return self._answer()["device"]

    def timed(self, visit: _Visit) -> list[float]:
        """Seconds a step, one number a sample."""
        self.ask(visit)
        return self.seconds()

    def ask(self, visit: _Visit) -> None:
        self.connection.sendall(b"%d %d\n" % (visit.samples, visit.repeats))

    def seconds(self) -> list[float]:
        """The answer to what was asked."""
        return self._answer()["seconds"]

    def end(self) -> None:
        """Nothing of a side is worth keeping."""
        if not self._is_reaped:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._lines.close()
        self.connection.close()

    def _answer(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            self._is_reaped = True
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            if status < 0:
                raise SideFailed(self.name, "signal", signal.Signals(-status).name, -status)
            raise SideFailed(self.name, "exit", f"it left with status {status}", status)
        told = json.loads(line)
        if "raised" in told:
            raise SideFailed(self.name, told["raised"], told["text"])
        return told


@contextmanager
def _forked(side: Side, others: Sequence[socket.socket]) -> Generator[_Process]:
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        for connection in (ours, *others):  # held open here, they would hide the parent's death from the other side
            connection.close()
        _serve(side, theirs)
    theirs.close()
    process = _Process(side.name, pid, ours)
    try:
        yield process
    finally:
        process.end()


def _serve(side: Side, connection: socket.socket) -> NoReturn:
    """The side's process: load, then run as many steps as each line asks for, until the parent is gone."""
    status = 1
    try:
        lines = connection.makefile("rb")
        try:
            step = side.prepare()
            _say(connection, device=step.device)
            while line := lines.readline():
                samples, repeats = map(int, line.split())
                _say(connection, seconds=[_timed(step.run, repeats) for _ in range(samples)])
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        except BaseException as problem:
            traceback.print_exc()
            _say(connection, raised=type(problem).__name__, text=str(problem))
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _say(connection: socket.socket, **told: object) -> None:
    connection.sendall(json.dumps(told).encode() + b"\n")


def _timed(run: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - started) / repeats
