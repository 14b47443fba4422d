"""A bug of the farm, the infrastructure, or a cancellation: each exception Ray can hand back is exactly one."""

import pytest
from ray import exceptions

from tensorfarm.farm.engine.classify import Trouble, cause_line, classify, first_line

INFRASTRUCTURE = [
    exceptions.ActorDiedError(),
    exceptions.ActorUnavailableError("gone", b"0" * 16),
    exceptions.ActorUnschedulableError("gone"),
    exceptions.NodeDiedError("gone"),
    exceptions.WorkerCrashedError(),
    exceptions.LocalRayletDiedError(),
    exceptions.OutOfMemoryError("the node is full"),
    exceptions.OutOfDiskError("the disk is full"),
    exceptions.GetTimeoutError(),
    exceptions.ObjectLostError("00" * 28, None, ""),
    TimeoutError(),
]
RAISED_REMOTELY = [
    ValueError("x"),
    TimeoutError("x"),
    MemoryError(),
    exceptions.OutOfMemoryError("x"),
    exceptions.ActorDiedError(),
    exceptions.GetTimeoutError(),
]


def raised_remotely(cause: Exception) -> Exception:
    return exceptions.RayTaskError("run", "traceback", cause).as_instanceof_cause()


@pytest.mark.parametrize("problem", INFRASTRUCTURE, ids=lambda problem: type(problem).__name__)
def test_a_lost_actor_node_or_object_is_infrastructure(problem: Exception) -> None:
    assert classify(problem) is Trouble.INFRASTRUCTURE


@pytest.mark.parametrize("cause", RAISED_REMOTELY, ids=lambda cause: type(cause).__name__)
def test_what_an_actor_raised_is_a_bug_whatever_it_inherits_from(cause: Exception) -> None:
    problem = raised_remotely(cause)
    assert classify(problem) is Trouble.FARM_BUG
    assert cause_line(problem).startswith(type(cause).__name__)


def test_a_cancellation_is_neither() -> None:
    cancelled = exceptions.TaskCancelledError()
    assert classify(cancelled) is Trouble.CANCELLED
    assert classify(raised_remotely(cancelled)) is Trouble.CANCELLED


def test_the_unknown_is_a_bug() -> None:
    assert classify(RuntimeError("x")) is Trouble.FARM_BUG


def test_a_reason_is_one_line() -> None:
    assert first_line(RuntimeError("\n \x1b[36mthe first\x1b[39m \n the second")) == "RuntimeError: the first"
    assert first_line(RuntimeError()) == "RuntimeError"
