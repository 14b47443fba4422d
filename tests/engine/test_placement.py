"""Never over slots or cores, never beside an exclusive job, and nothing waits for ever."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfarm.farm.engine.placement import Placement, Ticket

POOLS = ("compile", "gate", "bench")


@dataclass
class World:
    """Placement's own account, kept a second time by the test."""

    placement: Placement
    cores: dict[str, int]
    seats: dict[str, tuple[str, str, int]] = field(default_factory=dict[str, tuple[str, str, int]])
    tickets: dict[str, Ticket] = field(default_factory=dict[str, Ticket])
    running: dict[str, str] = field(default_factory=dict[str, str])

    def open(self, name: str, pool: str, node: str, slots: int) -> None:
        self.placement.open_seat(name, pool, node, self.cores[node], slots)
        self.seats[name] = (pool, node, slots)

    def wait(self, ticket: Ticket) -> None:
        self.tickets[ticket.job_id] = ticket
        self.placement.wait(ticket)

    def start(self) -> list[str]:
        started = self.placement.start()
        for job_id, seat in started:
            assert job_id not in self.running
            assert self.seats[seat][0] == self.tickets[job_id].pool
            self.running[job_id] = seat
        self.check()
        return [job_id for job_id, _ in started]

    def finish(self, job_id: str) -> None:
        self.placement.finish(job_id)
        del self.running[job_id], self.tickets[job_id]

    def close(self, seat: str) -> None:
        interrupted = self.placement.close_seat(seat)
        assert sorted(interrupted) == sorted(job_id for job_id, place in self.running.items() if place == seat)
        for job_id in interrupted:
            del self.running[job_id], self.tickets[job_id]
        del self.seats[seat]

    def check(self) -> None:
        used: Counter[str] = Counter()
        jobs: Counter[str] = Counter()
        exclusive: set[str] = set()
        for job_id, seat in self.running.items():
            node = self.seats[seat][1]
            used[node] += min(self.tickets[job_id].cores, self.cores[node])
            jobs[node] += 1
            if self.tickets[job_id].exclusive:
                exclusive.add(node)
        assert all(used[node] <= self.cores[node] for node in self.cores)
        assert all(jobs[node] == 1 for node in exclusive)
        assert all(count <= self.seats[seat][2] for seat, count in Counter(self.running.values()).items())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    cores = {f"node{number}": draw(st.integers(1, 4)) for number in range(draw(st.integers(1, 3)))}
    world = World(Placement(patience=draw(st.integers(0, 5))), cores)
    for number in range(draw(st.integers(1, 6))):
        node, pool = draw(st.sampled_from(sorted(cores))), draw(st.sampled_from(POOLS))
        world.open(f"seat{number}", pool, node, draw(st.integers(1, 3)))
    return world


@given(worlds(), st.data())
def test_no_limit_is_ever_broken_and_every_job_runs(world: World, data: st.DataObject) -> None:
    pools = sorted({pool for pool, _, _ in world.seats.values()})
    for number in range(data.draw(st.integers(0, 30))):
        pool = data.draw(st.sampled_from(pools))
        world.wait(Ticket(f"job{number}", pool, data.draw(st.integers(1, 6)), data.draw(st.booleans())))
        world.start()
        if world.running and data.draw(st.booleans()):
            world.finish(data.draw(st.sampled_from(sorted(world.running))))
            world.start()
    while world.running:
        world.finish(data.draw(st.sampled_from(sorted(world.running))))
        world.start()
    assert world.tickets == {}


@given(worlds(), st.data())
def test_a_closed_seat_gives_back_its_jobs_and_cores(world: World, data: st.DataObject) -> None:
    pools = sorted({pool for pool, _, _ in world.seats.values()})
    for number in range(10):
        world.wait(Ticket(f"job{number}", data.draw(st.sampled_from(pools)), 1))
    world.start()
    for seat in sorted(world.seats)[1:]:
        world.close(seat)
        world.start()
    while world.running:
        world.finish(min(world.running))
        world.start()
    left = {pool for pool, _, _ in world.seats.values()}
    assert {ticket.pool for ticket in world.tickets.values()}.isdisjoint(left)


@given(worlds(), st.booleans(), st.integers(1, 4))
def test_a_stream_of_small_jobs_never_starves_a_large_one(world: World, exclusive: bool, large_cores: int) -> None:
    """A new small job is handed in for each that ends; the large one starts within a bounded number of them."""
    node = "node0"
    world.open("large", "large", node, 1)
    world.open("small", "small", node, 4)
    numbers = iter(range(10_000))
    for _ in range(8):
        world.wait(Ticket(f"small{next(numbers)}", "small", 1))
    world.start()
    world.wait(Ticket("large", "large", large_cores, exclusive))
    for _ in range(40):
        if "large" in world.start():
            return
        world.finish(min(world.running, key=lambda name: int(name.removeprefix("small"))))
        world.wait(Ticket(f"small{next(numbers)}", "small", 1))
    pytest.fail("the large job never started")


def test_an_exclusive_job_waits_and_lets_others_pass() -> None:
    world = World(Placement(patience=3), {"node": 2})
    world.open("c", "compile", "node", 2)
    world.open("b", "bench", "node", 1)
    world.wait(Ticket("c0", "compile", 1))
    world.wait(Ticket("bench", "bench", 1, exclusive=True))
    world.wait(Ticket("c1", "compile", 1))
    assert world.start() == ["c0", "c1"]
    world.finish("c0")
    world.finish("c1")
    assert world.start() == ["bench"]
    world.wait(Ticket("c2", "compile", 1))
    assert world.start() == []
    world.finish("bench")
    assert world.start() == ["c2"]


def test_after_enough_have_passed_a_node_is_kept_free() -> None:
    world = World(Placement(patience=2), {"node": 4})
    world.open("c", "compile", "node", 8)
    world.open("b", "bench", "node", 1)
    world.wait(Ticket("c0", "compile", 1))
    assert world.start() == ["c0"]
    world.wait(Ticket("bench", "bench", 1, exclusive=True))
    for name in ("c1", "c2", "c3"):
        world.wait(Ticket(name, "compile", 1))
    assert world.start() == ["c1", "c2", "c3"]
    world.wait(Ticket("c4", "compile", 1))
    assert world.start() == []
    for name in ("c0", "c1", "c2", "c3"):
        world.finish(name)
    assert world.start() == ["bench"]


def test_passing_on_another_node_costs_a_waiting_job_nothing() -> None:
    world = World(Placement(patience=0), {"near": 2, "far": 1})
    world.open("c", "compile", "near", 2)
    world.open("g", "gate", "far", 1)
    world.open("b", "bench", "near", 1)
    world.wait(Ticket("c0", "compile", 1))
    world.wait(Ticket("bench", "bench", 1, exclusive=True))
    world.wait(Ticket("g0", "gate", 1))
    assert world.start() == ["c0", "g0"]


def test_a_job_wider_than_its_node_takes_all_of_it() -> None:
    world = World(Placement(), {"node": 2})
    world.open("c", "compile", "node", 4)
    world.wait(Ticket("wide", "compile", 64))
    world.wait(Ticket("narrow", "compile", 1))
    assert world.start() == ["wide"]


def test_capacity_counts_slots_less_running_and_waiting_jobs() -> None:
    world = World(Placement(), {"node": 1})
    assert world.placement.capacity("compile") == 0
    world.open("c", "compile", "node", 3)
    assert world.placement.capacity("compile") == 3
    for number in range(5):
        world.wait(Ticket(f"job{number}", "compile", 1))
        world.start()
        assert world.placement.capacity("compile") == max(0, 2 - number)
