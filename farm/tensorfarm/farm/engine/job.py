"""A job: steps that run in order on one supervisor, each in a child of its own, and what became of them.

Pure. A step that does not complete ends its job, unless it is tolerated: then the steps after it are told of the death,
so that a judge can turn its subject's death into a finding. They are told too what the steps before them returned: what
went through this process, and no file that a step in between could write. ``lost`` is infrastructure; an outcome is
about the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Status = Literal["completed", "raised", "died"]


@dataclass(frozen=True)
class Step:
    """One call of ``function`` (``package.module:name``) in a fresh child of the warm parent of ``role``.

    The function is given ``request`` (JSON) and ``threads`` in one dict and returns a JSON dict. Two keys of the
    request are also the child's: ``env`` is put into its environment, ``python_path`` in front of its ``sys.path``.
    ``memory_bytes`` limits what the child and every process below it take beyond the imports of their warm parent.
    ``takes`` fills keys of the request with what an earlier step returned: key → (its function, a key of its value).
    """

    role: str
    function: str
    request: Mapping[str, Any]
    seconds: float
    memory_bytes: int
    threads: int = 1
    tolerated: bool = False
    takes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@dataclass(frozen=True)
class Job:
    """``exclusive`` jobs run on a node where nothing else of this engine runs."""

    job_id: str
    pool: str
    steps: tuple[Step, ...]
    exclusive: bool = False


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended.

    ``completed``: ``value`` is what the function returned. ``raised``: ``kind`` is the exception's class name, and
    ``refusal`` holds the fields of a contract ``Refusal`` if it was one: fact, limit, next_step, exit_code,
    is_illegal_graph, and the names of its classes. ``died``: ``kind`` is signal, exit, timeout or out_of_memory, and
    ``traceback`` the end of what it printed. ``peak_bytes`` is the most memory seen in the child and below it, beyond
    what its warm parent had imported.
    """

    status: Status
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: str = ""
    message: str = ""
    refusal: Mapping[str, Any] = field(default_factory=dict[str, Any])
    traceback: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def completed(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True)
class JobResult:
    """``outcomes`` has one entry for each step that ran, in order; it is empty where the job was ``lost``, and why."""

    job_id: str
    outcomes: tuple[StepOutcome, ...]
    node_id: str
    lost: str = ""
    seconds: float = 0.0


def run_steps(job: Job, run: Callable[[Step], StepOutcome]) -> tuple[StepOutcome, ...]:
    """Run the steps of ``job`` in order.

    A request says by function what the completed steps before returned (``before``) and how tolerated ones failed
    (``deaths``); either key is left out where there is nothing to say.
    """
    outcomes: list[StepOutcome] = []
    before: dict[str, Any] = {}
    deaths: dict[str, Any] = {}
    for step in job.steps:
        told = {key: dict(value) for key, value in (("before", before), ("deaths", deaths)) if value}
        taken = {key: before[function][name] for key, (function, name) in step.takes.items()}
        outcome = run(replace(step, request={**step.request, "threads": step.threads, **taken, **told}))
        outcomes.append(outcome)
        if outcome.completed:
            before[step.function] = outcome.value
            continue
        if not step.tolerated:
            break
        deaths[step.function] = {
            "status": outcome.status,
            "kind": outcome.kind,
            "message": outcome.message,
            "traceback": outcome.traceback,
            "seconds": outcome.seconds,
        }
    return tuple(outcomes)


def encode_job(job: Job) -> bytes:
    """JSON bytes: Ray passes bytes on as they are, and any toolchain's Python can read them."""
    return json.dumps([job.job_id, job.pool, [vars(step) for step in job.steps], job.exclusive]).encode()


def decode_job(text: bytes) -> Job:
    job_id, pool, steps, exclusive = json.loads(text)
    return Job(job_id, pool, tuple(Step(**step) for step in steps), exclusive)


def encode_result(result: JobResult) -> bytes:
    outcomes = [vars(outcome) for outcome in result.outcomes]
    return json.dumps([result.job_id, outcomes, result.node_id, result.lost, result.seconds]).encode()


def decode_result(text: bytes) -> JobResult:
    job_id, outcomes, node_id, lost, seconds = json.loads(text)
    return JobResult(job_id, tuple(StepOutcome(**outcome) for outcome in outcomes), node_id, lost, seconds)
