"""The warm parent: imports what a role needs once, then forks a child for each step, watches it and reports its end.

Started as ``python -P -m tensorfarm.farm.engine.warm`` by a supervisor that holds the other end of a socket.
Invariants: it only imports, on one thread, and never imports Ray (a parent that ran one multi-threaded operation leaves
its children hanging in a futex); nothing a step started outlives the step; when the socket ends, so does all else.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from tensorfarm.contract.refusal import one_line
from tensorfarm.farm.engine import child, wire
from tensorfarm.farm.engine.postmortem import Death, outcome_of
from tensorfarm.farm.engine.process_tree import children_by_parent, held_bytes, kill_tree, tree

_WATCH_SECONDS = 0.1
_PRINTED_LIMIT_BYTES = 32 << 20
_PRINTED_TAIL_BYTES = 4096
_ORPHAN_SECONDS = 5.0
_PR_SET_CHILD_SUBREAPER = 36


class _Blocked:
    """Refuses to find modules that a role must not see, its own machinery included."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def holds(self, name: str) -> bool:
        return any(name == blocked or name.startswith(f"{blocked}.") for blocked in self.names)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if self.holds(name):
            raise ModuleNotFoundError(f"{name} is blocked in this role", name=name)
        return None

    def install(self) -> None:
        for name in [name for name in sys.modules if self.holds(name)]:
            package, _, attribute = name.rpartition(".")
            if package in sys.modules:
                vars(sys.modules[package]).pop(attribute, None)
            del sys.modules[name]
        sys.meta_path.insert(0, self)


@dataclass
class _Running:
    """A child at work. ``pidfd`` becomes readable when it is dead."""

    order: Mapping[str, Any]
    pid: int
    pidfd: int
    folder: Path
    started: float
    killed_for: str = ""
    peak_bytes: int = 0

    @property
    def deadline(self) -> float:
        return self.started + self.order["seconds"]


class WarmParent:
    """The loop. ``connection`` carries orders in, starts and outcomes out."""

    def __init__(self, connection: socket.socket, folder: Path) -> None:
        self.connection = connection
        self.folder = folder
        self.running: dict[int, _Running] = {}
        self.next_watch = 0.0
        self.imported_bytes = held_bytes([os.getpid()])
        self.imported_resident_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def serve(self) -> None:
        """Until the supervisor is gone; then end every child and go."""
        try:
            while True:
                ready = self._wait()
                for child_fd in [fd for fd in ready if fd in self.running]:
                    self._bury(self.running.pop(child_fd))
                self._watch()
                if self.connection.fileno() in ready:
                    order = wire.receive(self.connection)
                    if order is None:
                        return
                    self._fork(order)
        except ConnectionError:
            return
        finally:
            for running in self.running.values():
                kill_tree(running.pid)
            end_orphans(spared=())
            shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> set[int]:
        poll = select.poll()
        for fd in (self.connection.fileno(), *self.running):
            poll.register(fd, select.POLLIN)
        if not self.running:
            return {fd for fd, _ in poll.poll()}
        alarms = [running.deadline for running in self.running.values() if not running.killed_for]
        until = min([self.next_watch, *alarms])
        return {fd for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000 + 1)}

    def _fork(self, order: Mapping[str, Any]) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder = self.folder / str(order["id"])
        folder.mkdir()
        parent, started = os.getpid(), time.monotonic()
        pid = os.fork()
        if pid == 0:
            # A copy of this end would hide this parent's death from its supervisor.
            self.connection.close()
            child.become(order, parent, folder)
        running = _Running(order, pid, os.pidfd_open(pid), folder, started)
        self.running[running.pidfd] = running
        wire.send(self.connection, {"id": order["id"], "pid": pid})

    def _watch(self) -> None:
        """Kill what is past its time or over its memory, and cut off what prints without end."""
        now = time.monotonic()
        for running in self.running.values():
            if now >= running.deadline and not running.killed_for:
                self._kill(running, "timeout")
        if not self.running or now < self.next_watch:
            return
        by_parent = children_by_parent()
        for running in self.running.values():
            held = held_bytes(tree(running.pid, by_parent)) - self.imported_bytes
            running.peak_bytes = max(running.peak_bytes, held)
            if held > running.order["memory_bytes"]:
                self._kill(running, "out_of_memory")
            printed = running.folder / child.PRINTED
            with contextlib.suppress(FileNotFoundError):
                if printed.stat().st_size > _PRINTED_LIMIT_BYTES:
                    os.truncate(printed, 0)
        self.next_watch = time.monotonic() + _WATCH_SECONDS

    def _kill(self, running: _Running, reason: str) -> None:
        running.killed_for = running.killed_for or reason
        kill_tree(running.pid)

    def _bury(self, running: _Running) -> None:
        _, wait_status, usage = os.wait4(running.pid, 0)
        seconds = time.monotonic() - running.started
        os.close(running.pidfd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        end_orphans(spared=[other.pid for other in self.running.values()])
        order = running.order
        death = Death(
            wait_status=wait_status,
            killed_for=running.killed_for,
            report=_read(running.folder / child.REPORT),
            printed=_read(running.folder / child.PRINTED, _PRINTED_TAIL_BYTES).decode(errors="replace"),
            seconds=seconds,
            peak_bytes=max(running.peak_bytes, (usage.ru_maxrss << 10) - self.imported_resident_bytes, 0),
            limit_seconds=order["seconds"],
            limit_bytes=order["memory_bytes"],
        )
        shutil.rmtree(running.folder, ignore_errors=True)
        if not self.running:
            shutil.rmtree(self.folder, ignore_errors=True)
        wire.send(self.connection, {"id": order["id"], "outcome": vars(outcome_of(death))})


def end_orphans(spared: Sequence[int]) -> None:
    """Kill and reap what dead children left behind.

    This process and each child are subreapers: a process that is this one's child and none of ``spared`` was left by a
    child that is dead, in whatever session it hid.
    """
    until = time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < until:
        orphans = [pid for pid in children_by_parent().get(os.getpid(), ()) if pid not in spared]
        if not orphans:
            return
        for pid in orphans:
            kill_tree(pid)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def _read(path: Path, tail_bytes: int = 0) -> bytes:
    """The file, or its last ``tail_bytes``; nothing where there is no file."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - tail_bytes) if tail_bytes else 0)
            return stream.read()
    except FileNotFoundError:
        return b""


def _preload(modules: Sequence[str], blocked: _Blocked) -> str:
    """Import the role's modules, and call what they name in them; in one line what is wrong there, or nothing."""
    name = ""
    try:
        blocked.install()
        for name in modules:
            module, _, function = name.partition(":")
            loaded = importlib.import_module(module)
            if function:
                getattr(loaded, function)()
    except BaseException as error:
        return f"importing {name} raised {one_line(error)}"
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"importing {', '.join(modules)} started {threads - 1} threads; children forked beside threads hang"
    return "a warm parent must not import Ray" if "ray" in sys.modules else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", required=True)
    parser.add_argument("--connection", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--preload", default="")
    parser.add_argument("--blocked", default="")
    options = parser.parse_args()
    connection = socket.socket(fileno=options.connection)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    problem = _preload(_names(options.preload), _Blocked(_names(options.blocked)))
    wire.send(connection, {"ready": not problem, "problem": problem})
    if not problem:
        # Shared pages stay shared: no collection in a child touches what was imported here.
        gc.collect()
        gc.freeze()
        WarmParent(connection, options.folder).serve()


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main()
