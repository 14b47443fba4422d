"""The driver: keeps the engine busy with what the reactions want, and records what happened before it acts on it.

It holds no truth. Every event is acknowledged by the journal before the state folds it in, so the driver may die
anywhere; the next one replays the events and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tensorfarm.contract import events as e
from tensorfarm.farm.engine.job import Job, JobResult
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.commands import Stage, part_of, stage_of, subject_of
from tensorfarm.farm.pipeline.reactions import Limits, exhausted, job_commands, local_commands
from tensorfarm.farm.pipeline.state import SweepState

POLL_SECONDS = 0.1


class JobRunner(Protocol):
    """The engine, as far as the driver knows it."""

    def capacity(self, pool: str) -> int: ...
    def submit(self, job: Job) -> None: ...
    def poll(self, timeout_seconds: float) -> list[JobResult]: ...


class Recorder(Protocol):
    """Acknowledges events: when it returns, they are durable."""

    def append(self, records: Sequence[e.Recorded]) -> int: ...


class Desk(Protocol):
    """What a driver asks of the sweep it drives: jobs for commands, events for results and for its own steps."""

    def job(self, command: c.JobCommand) -> Job: ...
    def events_of(self, command: c.JobCommand, result: JobResult) -> Sequence[e.Event]: ...
    def perform(self, commands: Sequence[c.LocalCommand]) -> Iterable[e.Event]: ...


Watcher = Callable[[e.Event], None]
POOLS = tuple(dict.fromkeys(c.POOL_OF.values()))


@dataclass
class Driver:
    """Drives one sweep to its end. ``stopped`` is asked between polls; ``watch`` sees every recorded event."""

    state: SweepState
    recorder: Recorder
    desk: Desk
    stopped: Callable[[], bool] = lambda: False
    watch: Watcher = lambda event: None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._in_flight: dict[str, c.JobCommand] = {}
        self._last_about: dict[str, str] = {}

    def run(self, runner: JobRunner) -> bool:
        """Let ``runner`` do the jobs. Returns True when every cell has ended, False when it was stopped before."""
        while not self.stopped():
            self._perform_local()
            if self.state.complete:
                return True
            self._start_jobs(runner)
            self._collect(runner.poll(POLL_SECONDS))
        return False

    def record(self, events: Iterable[e.Event]) -> None:
        """Make events durable, then let state and watcher see them."""
        batch = list(events)
        if not batch:
            return
        now_us = time.time_ns() // 1000
        self.recorder.append([self._recorded(event, now_us) for event in batch])
        for event in batch:
            self.state.apply(event)
            self.watch(event)

    def _recorded(self, event: e.Event, now_us: int) -> e.Recorded:
        if isinstance(event, e.JobLost):
            ordinal = self.state.lost.get((event.stage, event.subject), 0)
            stage = list(Stage).index(Stage(event.stage))
            return self._told(event, now_us, attempt=ordinal, ordinal=stage)
        repeats = isinstance(event, (e.SweepInterrupted, e.SweepFinished))
        return self._told(event, now_us, attempt=0, ordinal=self.state.interruptions if repeats else 0)

    def _told(self, event: e.Event, now_us: int, *, attempt: int, ordinal: int) -> e.Recorded:
        record = e.recorded(event, ts_us=now_us, attempt=attempt, cause_id=self._cause(event), ordinal=ordinal)
        if isinstance(event, e.CandidateEnded):
            self._last_about.pop(event.subject, None)
        else:
            self._last_about[event.subject] = record.event_id
        return record

    def _cause(self, event: e.Event) -> str:
        """The event before this one about the same cell, or else its program; empty where an earlier driver saw it."""
        program = event.program if isinstance(event, e.CandidateSubmitted) else ""
        return self._last_about.get(event.subject, self._last_about.get(program, ""))

    def _perform_local(self) -> None:
        """Local steps lead to local steps: go on until none is left."""
        while commands := [*exhausted(self.state, self.limits), *local_commands(self.state)]:
            self.record(self.desk.perform(commands))

    def _start_jobs(self, runner: JobRunner) -> None:
        room = {pool: runner.capacity(pool) for pool in POOLS}
        running = {(stage_of(command), subject_of(command), part_of(command)) for command in self._in_flight.values()}
        for command in job_commands(self.state, running, room, self.limits):
            job = self.desk.job(command)
            self._in_flight[job.job_id] = command
            runner.submit(job)

    def _collect(self, results: Sequence[JobResult]) -> None:
        answered = [(self._in_flight.pop(result.job_id), result) for result in results]
        self.record([event for command, result in answered for event in self.desk.events_of(command, result)])
