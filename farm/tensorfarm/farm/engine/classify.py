"""What an exception from Ray says about a job: the farm has a bug, the infrastructure failed, or it was cancelled.

``RayTaskError`` is looked at first: it also inherits from whatever the remote code raised, so a bug in an actor that
happens to be a TimeoutError, or a Ray error re-raised there, would pass for infrastructure.
"""

from __future__ import annotations

import re
from enum import StrEnum

from ray import exceptions


class Trouble(StrEnum):
    FARM_BUG = "farm_bug"
    INFRASTRUCTURE = "infrastructure"
    CANCELLED = "cancelled"


_INFRASTRUCTURE = (
    exceptions.RayActorError,
    exceptions.NodeDiedError,
    exceptions.WorkerCrashedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
    exceptions.OutOfDiskError,
    exceptions.GetTimeoutError,
    exceptions.ObjectLostError,
    exceptions.ObjectFetchTimedOutError,
    exceptions.ObjectStoreFullError,
    exceptions.ActorUnschedulableError,
    exceptions.TaskUnschedulableError,
    exceptions.RpcError,
    TimeoutError,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def classify(problem: BaseException) -> Trouble:
    """Anything unknown is a bug of the farm: better loud than retried for ever."""
    if isinstance(problem, exceptions.RayTaskError):
        cancelled = isinstance(problem.cause, exceptions.TaskCancelledError)
        return Trouble.CANCELLED if cancelled else Trouble.FARM_BUG
    if isinstance(problem, exceptions.TaskCancelledError):
        return Trouble.CANCELLED
    return Trouble.INFRASTRUCTURE if isinstance(problem, _INFRASTRUCTURE) else Trouble.FARM_BUG


def cause_line(problem: BaseException) -> str:
    """The same of what the remote code raised."""
    return first_line(problem.cause if isinstance(problem, exceptions.RayTaskError) else problem)


def first_line(problem: BaseException) -> str:
    """Class name and first line of text: Ray's messages run over many lines, some of them coloured."""
    lines = [line.strip() for line in _COLOUR.sub("", str(problem)).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
