"""Which job runs where, and when. Pure: no Ray, no clock.

Invariants: no seat holds more jobs than it has slots; the running jobs of a node never take more than its cores; beside
an exclusive job nothing runs. Jobs go first come, first served, but one that cannot start yet (an exclusive job on a
busy node) lets later ones pass. After ``patience`` of them have passed it on its nodes, one is kept free for it: it
waits, it never starves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

PATIENCE = 64


@dataclass(frozen=True, slots=True)
class Ticket:
    """What placement needs to know of a job. ``cores`` beyond a node's are cut down to all of them."""

    job_id: str
    pool: str
    cores: int
    exclusive: bool = False


@dataclass(slots=True)
class _Node:
    cores: int
    used: int = 0
    running: int = 0
    exclusive: bool = False


@dataclass(slots=True)
class _Seat:
    name: str
    pool: str
    node: str
    slots: int
    running: dict[str, Ticket] = field(default_factory=dict[str, Ticket])


@dataclass(slots=True)
class _Waiting:
    ticket: Ticket
    passed_by: int = 0


class Placement:
    """The state of all seats (supervisors), nodes and waiting jobs."""

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._nodes: dict[str, _Node] = {}
        self._seats: dict[str, dict[str, _Seat]] = {}
        self._seat_of: dict[str, _Seat] = {}
        self._waiting: dict[str, _Waiting] = {}

    def open_seat(self, name: str, pool: str, node: str, node_cores: int, slots: int) -> None:
        self._nodes.setdefault(node, _Node(node_cores))
        self._seats.setdefault(pool, {})[name] = _Seat(name, pool, node, slots)

    def close_seat(self, name: str) -> list[str]:
        """The seat's actor is gone; the ids of the jobs that ran there."""
        seat = next(seats.pop(name) for seats in self._seats.values() if name in seats)
        interrupted = list(seat.running)
        for job_id in interrupted:
            self._leave(seat, job_id)
        return interrupted

    def seats(self, pool: str) -> int:
        return len(self._seats.get(pool, {}))

    def capacity(self, pool: str) -> int:
        """How many more jobs of ``pool`` may be handed in: its slots, less those that run or wait. Never negative."""
        free = sum(seat.slots - len(seat.running) for seat in self._seats.get(pool, {}).values())
        return max(0, free - sum(1 for waiting in self._waiting.values() if waiting.ticket.pool == pool))

    def wait(self, ticket: Ticket) -> None:
        """Put a job at the end of the queue."""
        self._waiting[ticket.job_id] = _Waiting(ticket)

    def start(self) -> list[tuple[str, str]]:
        """Start every waiting job that can: pairs of job id and seat name."""
        started: list[tuple[str, str]] = []
        kept_free: set[str] = set()
        passed: list[_Waiting] = []
        for waiting in list(self._waiting.values()):
            seat = self._seat_for(waiting.ticket, kept_free)
            if seat is None:
                passed.append(waiting)
                if waiting.passed_by >= self._patience:
                    kept_free |= self._nodes_to_keep_free(waiting.ticket.pool, kept_free)
                continue
            self._sit(seat, waiting.ticket)
            started.append((waiting.ticket.job_id, seat.name))
            for earlier in passed:
                earlier.passed_by += seat.node in self._nodes_of(earlier.ticket.pool)
        return started

    def finish(self, job_id: str) -> None:
        """The job is done, however it ended."""
        self._leave(self._seat_of[job_id], job_id)

    def _seat_for(self, ticket: Ticket, kept_free: Iterable[str]) -> _Seat | None:
        """The seat on the node with the most free cores, then the one with the fewest jobs."""
        fitting = [
            seat
            for seat in self._seats.get(ticket.pool, {}).values()
            if len(seat.running) < seat.slots and seat.node not in kept_free and self._fits(ticket, seat.node)
        ]
        if not fitting:
            return None
        return max(fitting, key=lambda seat: (self._free_cores(seat.node), -len(seat.running)))

    def _fits(self, ticket: Ticket, node_name: str) -> bool:
        node = self._nodes[node_name]
        if node.exclusive or (ticket.exclusive and node.running):
            return False
        return min(ticket.cores, node.cores) <= node.cores - node.used

    def _free_cores(self, node_name: str) -> int:
        return self._nodes[node_name].cores - self._nodes[node_name].used

    def _nodes_of(self, pool: str) -> set[str]:
        return {seat.node for seat in self._seats.get(pool, {}).values()}

    def _nodes_to_keep_free(self, pool: str, kept_free: set[str]) -> set[str]:
        """One node that has a seat of ``pool``: the one with the fewest jobs left to wait for."""
        nodes = self._nodes_of(pool) - kept_free
        return set(sorted(nodes, key=lambda name: (self._nodes[name].running, name))[:1])

    def _sit(self, seat: _Seat, ticket: Ticket) -> None:
        node = self._nodes[seat.node]
        node.used += min(ticket.cores, node.cores)
        node.running += 1
        node.exclusive = ticket.exclusive
        seat.running[ticket.job_id] = ticket
        self._seat_of[ticket.job_id] = seat
        del self._waiting[ticket.job_id]

    def _leave(self, seat: _Seat, job_id: str) -> None:
        ticket = seat.running.pop(job_id)
        del self._seat_of[job_id]
        node = self._nodes[seat.node]
        node.used -= min(ticket.cores, node.cores)
        node.running -= 1
        node.exclusive = False
