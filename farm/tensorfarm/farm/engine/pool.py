"""The engine: pools of supervisor actors, and the jobs on them. Hand jobs in, poll for results.

Invariants: every job handed in comes back exactly once, as an answer or as lost; an actor is never restarted by Ray and
a job never retried here, the caller decides; a bug of the farm is raised and never dressed up as either.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine import cluster
from tensorfarm.farm.engine.classify import Trouble, cause_line, classify, first_line
from tensorfarm.farm.engine.config import EngineConfig, PoolSpec
from tensorfarm.farm.engine.job import Job, JobResult, decode_result, encode_job
from tensorfarm.farm.engine.placement import Placement, Ticket
from tensorfarm.farm.engine.supervisor import NoopSupervisor, Supervisor
from tensorfarm.farm.engine.toolchain import installed_facts

_FAILED_OPENINGS = 3
_OVERDUE_CHECK_SECONDS = 1.0


class EngineBug(RuntimeError):
    """The farm's own code raised in an actor. An internal error: nobody's candidate did this."""


@dataclass(slots=True)
class _Actor:
    pool: PoolSpec
    handle: Any
    opened: float
    node: str = ""
    node_name: str = ""


@dataclass(slots=True)
class _Flight:
    """A job on an actor."""

    job: Job
    seat: str
    reference: Any
    started: float
    deadline: float


class Engine:
    """Not thread-safe: one driver hands in and polls."""

    def __init__(self, config: EngineConfig, supervisor: type[Supervisor | NoopSupervisor]) -> None:
        self._config = config
        self._pools = {pool.name: pool for pool in config.pools}
        self._supervisor: Any = ray.remote(supervisor)
        self._placement = Placement()
        self._seat_numbers = itertools.count()
        self._actors: dict[str, _Actor] = {}
        self._opening: dict[Any, str] = {}
        self._failed_openings: Counter[str] = Counter()
        self._waiting: dict[str, Job] = {}
        self._flights: dict[Any, _Flight] = {}
        self._references: dict[str, Any] = {}
        self._next_overdue_check = 0.0
        self._facts = installed_facts()

    @classmethod
    def start(cls, config: EngineConfig, supervisor: type[Supervisor | NoopSupervisor] = Supervisor) -> Engine:
        """Start or join Ray and open every pool. Raises Refusal where Ray does not answer or lacks a resource."""
        if config.address is None:
            cluster.start_local(config.pools, config.cores_per_node)
        else:
            cluster.join(config.address)
        engine = cls(config, supervisor)
        try:
            cluster.require(config.pools)
            engine._open_all()
        except BaseException:
            engine.close()
            raise
        return engine

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def capacity(self, pool: str) -> int:
        """How many more jobs ``pool`` takes now: its slots, less the jobs that run there or wait for a node."""
        return self._placement.capacity(pool)

    def submit(self, job: Job) -> None:
        """Start ``job`` as soon as placement allows. Raises KeyError on an unknown pool or role, or a job id in use."""
        pool = self._pools[job.pool]
        if unknown := {step.role for step in job.steps} - self._config.roles.keys():
            raise KeyError(f"job {job.job_id} needs roles that this engine does not have: {', '.join(sorted(unknown))}")
        if job.job_id in self._waiting or job.job_id in self._references:
            raise KeyError(f"job {job.job_id} is already here")
        self._waiting[job.job_id] = job
        self._placement.wait(Ticket(job.job_id, job.pool, pool.cores, job.exclusive))
        self._launch()

    def poll(self, timeout_seconds: float) -> list[JobResult]:
        """What ended, waiting up to ``timeout_seconds`` for the first.

        Raises EngineBug, and Refusal (exit code 16) where a pool has no supervisor left and none can be started.
        """
        results: list[JobResult] = []
        for reference in self._ready(timeout_seconds):
            if reference in self._opening:
                self._opened(reference)
            elif reference in self._flights:
                results.extend(self._landed(self._flights[reference]))
        results.extend(self._overdue())
        self._launch()
        return results

    def close(self) -> None:
        """Kill the actors, and with them every child; stop Ray where it was started here."""
        for actor in self._actors.values():
            ray.kill(actor.handle)
        ray.shutdown()

    def _open_all(self) -> None:
        for pool in self._config.pools:
            for _ in range(min(pool.actors, cluster.offered(pool.resource))):
                self._open(pool)
        while any(self._placement.seats(name) == 0 for name in self._pools):
            for reference in self._ready(1.0):
                self._opened(reference)

    def _open(self, pool: PoolSpec, avoided_node: str = "") -> None:
        """Ask for a supervisor, away from ``avoided_node`` if there is another. It is a seat once it answers."""
        options: dict[str, Any] = {}
        others = [node for node in cluster.alive_nodes() if node["NodeID"] != avoided_node]
        if avoided_node and (fit := [node for node in others if node["Resources"].get(pool.resource, 0) >= 1]):
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                fit[0]["NodeID"], soft=True, _spill_on_unavailable=True
            )
        handle = self._supervisor.options(
            num_cpus=0,
            resources={pool.resource: 1},
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=pool.slots + 1,
            **options,
        ).remote(self._config.roles, self._config.start_seconds)
        seat = f"{pool.name}-{next(self._seat_numbers)}"
        self._actors[seat] = _Actor(pool, handle, time.monotonic())
        self._opening[handle.node.remote()] = seat

    def _opened(self, reference: Any) -> None:
        seat = self._opening.pop(reference)
        actor = self._actors[seat]
        try:
            actor.node, actor.node_name, facts = ray.get(reference)
        except exceptions.RayError as problem:
            del self._actors[seat]
            if classify(problem) is Trouble.FARM_BUG:
                raise EngineBug(cause_line(problem)) from problem
            if actor.node:
                self._open(actor.pool, avoided_node=actor.node)
            else:
                self._reopen(actor.pool, first_line(problem))
            return
        if facts != self._facts:
            raise _unlike_the_driver(actor.node_name, self._facts, facts)
        self._failed_openings[actor.pool.name] = 0
        cores = self._config.cores_per_node or cluster.node_cores(actor.node)
        self._placement.open_seat(seat, actor.pool.name, actor.node, cores, actor.pool.slots)

    def _reopen(self, pool: PoolSpec, reason: str) -> None:
        self._failed_openings[pool.name] += 1
        if self._failed_openings[pool.name] < _FAILED_OPENINGS:
            self._open(pool)
        elif self._placement.seats(pool.name) == 0 and not self._is_opening(pool):
            raise _gone(pool, reason)

    def _is_opening(self, pool: PoolSpec) -> bool:
        return any(self._actors[seat].pool is pool for seat in self._opening.values())

    def _ready(self, timeout_seconds: float) -> Sequence[Any]:
        self._check_openings()
        references = [*self._opening, *self._flights]
        if not references:
            time.sleep(timeout_seconds)
            return []
        ready, rest = ray.wait(references, timeout=timeout_seconds)
        if ready and rest:
            more, _ = ray.wait(rest, num_returns=len(rest), timeout=0)
            ready.extend(more)
        return ready

    def _check_openings(self) -> None:
        """Ray never says that an actor cannot start: no answer in time is an answer, where the pool has nobody else."""
        allowed = self._config.opening_seconds
        for seat in self._opening.values():
            actor = self._actors[seat]
            late = time.monotonic() - actor.opened > allowed
            if late and self._placement.seats(actor.pool.name) == 0:
                units = cluster.offered(actor.pool.resource)
                have = (
                    f"{units} units are taken by others" if units else f"no node offers {actor.pool.resource} any more"
                )
                raise _gone(actor.pool, f"{have}, and no supervisor started in {allowed:g} s")

    def _launch(self) -> None:
        for job_id, seat in self._placement.start():
            job = self._waiting.pop(job_id)
            now = time.monotonic()
            deadline = now + self._allowed_seconds(job)
            reference = self._actors[seat].handle.run.remote(encode_job(job))
            self._flights[reference] = _Flight(job, seat, reference, now, deadline)
            self._references[job_id] = reference

    def _allowed_seconds(self, job: Job) -> float:
        config = self._config
        starts = config.start_seconds * len({step.role for step in job.steps})
        return sum(step.seconds for step in job.steps) + config.grace_seconds + starts

    def _landed(self, flight: _Flight) -> Iterator[JobResult]:
        try:
            result = decode_result(ray.get(flight.reference))
        except exceptions.RayError as problem:
            if classify(problem) is not Trouble.FARM_BUG:
                yield from self._give_up(flight.seat, first_line(problem))
                return
            self._finish(flight)
            raise EngineBug(cause_line(problem)) from problem
        self._finish(flight)
        yield result

    def _overdue(self) -> Iterator[JobResult]:
        now = time.monotonic()
        if now < self._next_overdue_check:
            return
        self._next_overdue_check = now + _OVERDUE_CHECK_SECONDS
        for flight in [flight for flight in self._flights.values() if flight.deadline <= now]:
            # One that shared its actor with an earlier one has already been given up.
            if flight.reference in self._flights:
                yield from self._give_up(flight.seat, f"no answer in {now - flight.started:.0f} s")

    def _give_up(self, seat: str, reason: str) -> Iterator[JobResult]:
        """The actor is dead or as good as: kill it, return its jobs as lost, and open another."""
        actor = self._actors.pop(seat)
        ray.kill(actor.handle)
        for job_id in self._placement.close_seat(seat):
            flight = self._flights[self._references[job_id]]
            self._forget(flight)
            yield JobResult(job_id, (), actor.node_name, reason, time.monotonic() - flight.started)
        self._question_idle(actor.node)
        self._open(actor.pool, avoided_node=actor.node)

    def _question_idle(self, node: str) -> None:
        """The whole node may be dead: its idle actors answer again before they are seats again.

        A dead node is free, so placement would choose it for the same job until that job has no attempt left.
        """
        occupied = {flight.seat for flight in self._flights.values()} | set(self._opening.values())
        for seat, actor in self._actors.items():
            if actor.node == node and seat not in occupied:
                self._placement.close_seat(seat)
                actor.opened = time.monotonic()
                self._opening[actor.handle.node.remote()] = seat

    def _finish(self, flight: _Flight) -> None:
        self._forget(flight)
        self._placement.finish(flight.job.job_id)

    def _forget(self, flight: _Flight) -> None:
        del self._flights[flight.reference]
        del self._references[flight.job.job_id]


def _unlike_the_driver(node_name: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Refusal:
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    told = ", ".join(f"{name} {theirs.get(name, 'unset')!r} instead of {ours.get(name, 'unset')!r}" for name in names)
    return Refusal(
        f"node {node_name} has {told}",
        limit="one toolchain, the driver's, is part of every candidate of a sweep",
        next_step="give every node the same environment (docs/cluster.md)",
    )


def _gone(pool: PoolSpec, reason: str) -> Refusal:
    return Refusal(
        f"pool {pool.name} has no supervisor left: {reason}",
        limit=f"a node with a unit of {pool.resource} to spare",
        next_step='see "ray status"; a sweep goes on with --resume',
        exit_code=16,
    )
