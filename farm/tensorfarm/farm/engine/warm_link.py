"""The supervisor's end of a warm parent: start it, hand it steps, know when it is dead.

A warm parent's death is never a step's: whoever waits is told ``WarmParentDied`` and the steps' processes are ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import uuid
from concurrent.futures import Future
from pathlib import Path

from tensorfarm.farm.engine import wire
from tensorfarm.farm.engine.config import RoleSpec
from tensorfarm.farm.engine.job import Step, StepOutcome
from tensorfarm.farm.engine.process_tree import kill_tree

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Torch then asks the driver's library whether there is a card: asking CUDA itself would make every fork unfit for it.
_FORKS = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
_CLOSE_SECONDS = 1.0


class WarmParentDied(Exception):
    """The warm parent ended while it was needed: infrastructure."""


class WarmParentUnfit(Exception):
    """The role cannot be served as it is configured: a bug of the farm, not of a candidate."""


class WarmLink:
    """One running warm parent. ``run`` may be called from several threads at once."""

    def __init__(self, role: str, spec: RoleSpec, start_seconds: float) -> None:
        """Start and wait until it has imported. Raises WarmParentUnfit or, after ``start_seconds``, WarmParentDied."""
        self.role = role
        # There only while a step runs: an engine ends by killing, and what is killed while idle leaves nothing.
        self.folder = Path(tempfile.gettempdir()) / f"tensorfarm-{role}-{uuid.uuid4().hex}"
        self._connection, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                _command(role, spec, theirs.fileno(), self.folder),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD, **_FORKS},
                start_new_session=True,
            )
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[StepOutcome]] = {}
        self._pids: dict[int, int] = {}
        self._dead = False
        self._greet(start_seconds)
        self._reader = threading.Thread(target=self._read, name=f"warm-{role}", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return not self._dead and self.process.poll() is None

    def run(self, step: Step) -> StepOutcome:
        """Run ``step`` in a fresh child. Raises WarmParentDied."""
        answer: Future[StepOutcome] = Future()
        number = next(self._numbers)
        order = {
            "id": number,
            "function": step.function,
            "request": step.request,
            "seconds": step.seconds,
            "memory_bytes": step.memory_bytes,
            "threads": step.threads,
        }
        with self._lock:
            if self._dead:
                raise WarmParentDied(f"the warm parent of {self.role} is dead")
            self._waiting[number] = answer
            # Where this fails, the reader sees the same end of the stream and answers all who wait.
            with contextlib.suppress(OSError):
                wire.send(self._connection, order)
        return answer.result()

    def close(self) -> None:
        """End it and its children. Returns when they are gone."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()

    def _greet(self, start_seconds: float) -> None:
        self._connection.settimeout(start_seconds)
        try:
            hello = wire.receive(self._connection)
        except TimeoutError:
            self._end()
            raise WarmParentDied(f"the warm parent of {self.role} was not ready in {start_seconds:g} s") from None
        if hello is None:
            self._end()
            raise WarmParentDied(f"the warm parent of {self.role} died while it imported")
        if not hello["ready"]:
            self._end()
            raise WarmParentUnfit(f"role {self.role} cannot be served: {hello['problem']}")
        self._connection.settimeout(None)

    def _read(self) -> None:
        while (message := wire.receive(self._connection)) is not None:
            if "pid" in message:
                self._pids[message["id"]] = message["pid"]
                continue
            self._pids.pop(message["id"], None)
            self._waiting.pop(message["id"]).set_result(StepOutcome(**message["outcome"]))
        with self._lock:
            self._dead = True
            self._end()
            for answer in self._waiting.values():
                answer.set_exception(WarmParentDied(f"the warm parent of {self.role} died ({self.process.returncode})"))

    def _end(self) -> None:
        """Leave nothing behind. It goes by itself when its socket ends, and is killed if it does not.

        A dead warm parent's children have had their death signal; what they started themselves has not.
        """
        self._connection.close()
        try:
            self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            kill_tree(self.process.pid)
            self.process.wait()
        for pid in self._pids.values():
            kill_tree(pid)
        shutil.rmtree(self.folder, ignore_errors=True)


def _command(role: str, spec: RoleSpec, connection: int, folder: Path) -> list[str]:
    return [
        spec.python,
        # Without -P the working folder would come first on sys.path, and whatever lies there would be imported.
        *("-P", "-m", "tensorfarm.farm.engine.warm"),
        *("--role", role),
        *("--connection", str(connection)),
        *("--folder", str(folder)),
        *("--preload", ",".join(spec.preload)),
        *("--blocked", ",".join(spec.blocked)),
    ]
