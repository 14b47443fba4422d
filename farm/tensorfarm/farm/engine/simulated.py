"""An engine without processes: jobs are answered by a function. For tests of the driver and for its cost alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tensorfarm.farm.engine.job import Job, JobResult


class SimulatedEngine:
    """Takes up to ``slots`` jobs of each pool at once and answers them in the order they came."""

    def __init__(self, answer: Callable[[Job], JobResult], slots: int = 4) -> None:
        self._answer = answer
        self._slots = slots
        self._jobs: deque[Job] = deque()

    def capacity(self, pool: str) -> int:
        return self._slots - sum(job.pool == pool for job in self._jobs)

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def poll(self, timeout_seconds: float) -> list[JobResult]:
        """Everything that was submitted is done at once."""
        done = [self._answer(job) for job in self._jobs]
        self._jobs.clear()
        return done
