"""Verdicts on the population, side by side: who is judged, with which seeds, and what became of each.

A job is (program file, kind, number, seed); the member is built anew where it is judged. What its example's calls gave,
and what the original gave, is kept in a file for the rivals. Invariant: a member is left out for being equivalent
alone, and then it is listed.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from gate_children import apart, side_by_side
from gate_population import PROGRAMS, Member, active, verdict

from tensorfarm.contract.exchange import OUTPUTS
from tensorfarm.contract.numerics import parse_contract
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate import expectation
from tensorfarm.gate.faults.activity import Probe
from tensorfarm.gate.faults.catalogue import fault_of
from tensorfarm.gate.faults.fault import Fault, plant
from tensorfarm.gate.inputs import example
from tensorfarm.gate.trial import MAIN

KINDS_OF_TENSORS = ("output:", "gradient:")
ALARMS = ("conformance_failure", "semantic_drift")


@dataclass(frozen=True)
class Job:
    """``number`` is which of the kind's places in the program."""

    path: Path
    kind: str
    number: int
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind} {self.path.stem} {self.number} {self.seed}"


@dataclass(frozen=True)
class Row:
    """One verdict. ``listed`` are the families of the kind, none of an honest one; ``failed`` those that raised an
    alarm. ``dtypes`` are those of the program's inputs; ``tensors`` the file for the rivals. Seconds are wall time."""

    kind: str
    program: str
    number: int
    seed: int
    site: str
    listed: tuple[str, ...]
    dtypes: str
    outcome: str
    failed: tuple[str, ...]
    message: str
    died: str
    killed: bool
    seconds: float
    tensors: str = ""
    rivals: Mapping[str, bool] = field(default_factory=dict[str, bool])

    @property
    def alarmed(self) -> bool:
        return self.outcome in ALARMS


@dataclass(frozen=True)
class Bench:
    """Where a run works: contract fields, a folder for runs and oracles, how many workers."""

    contract: Mapping[str, Any]
    folder: Path
    workers: int


@dataclass(frozen=True)
class Activities:
    """Jobs that change a bit somewhere, and the rest with whether their site ran at all."""

    active: list[Job]
    equivalent: list[dict[str, Any]]


def jobs_of(paths: Iterable[Path], kinds: Sequence[Fault], places: int) -> list[Job]:
    """Every kind in every program that has a place for it, at most ``places`` of each, no place twice."""
    can_load()
    found: list[Job] = []
    for path in paths:
        program = Program.load(path)
        for kind in kinds:
            count = len(list(kind.changes(program)))
            found += [Job(path, kind.id, number) for number in range(min(count, places))]
    return found


def spread(jobs: Sequence[Job], most: int) -> list[Job]:
    """Of each kind at most ``most``, spread evenly over its programs and places, another start for each kind."""
    by_kind: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_kind[job.kind].append(job)
    found: list[Job] = []
    for turn, kind in enumerate(sorted(by_kind)):
        of = by_kind[kind]
        count = min(most, len(of))
        found += [of[(turn * 5 + step * len(of) // count) % len(of)] for step in range(count)]
    return found


def activities(bench: Bench, jobs: Sequence[Job]) -> Activities:
    """By the activity probe, a program a child."""
    by_program: dict[Path, list[Job]] = defaultdict(list)
    for job in jobs:
        by_program[job.path].append(job)
    found = Activities([], [])
    groups = [tuple(of) for of in by_program.values()]
    for of, answers in side_by_side(partial(_probed, bench.contract), groups, bench.workers, "activity"):
        for job, (where, reached) in zip(of, answers, strict=True):
            if where:
                found.active.append(job)
            else:
                member = _member(job)
                told = {"kind": job.kind, "program": member.program.source, "site": member.mutant.site}
                found.equivalent.append({**told, "reached": reached})
    return found


def verdicts(bench: Bench, jobs: Sequence[Job], what: str) -> list[Row]:
    """One verdict a job, at the full level, every family run; in the jobs' order."""
    order = {job: place for place, job in enumerate(jobs)}
    judged = side_by_side(partial(_judged, bench), jobs, bench.workers, what)
    return [row for _, row in sorted(judged, key=lambda item: order[item[0]])]


def changed_by_seed(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Members whose outcome is another with another seed, with how often each outcome came."""
    by_member: dict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_member[row.kind, row.program, row.number][row.outcome] += 1
    return [
        {"kind": kind, "program": program, "number": number, "outcomes": dict(outcomes)}
        for (kind, program, number), outcomes in by_member.items()
        if len(outcomes) > 1
    ]


def _judged(bench: Bench, job: Job) -> Row:
    started = time.monotonic()
    member = _member(job)
    folder = bench.folder / "runs" / job.name.replace(" ", "-")
    row = Row(
        job.kind, member.program.source, job.number, job.seed, member.mutant.site, member.mutant.families,
        _dtypes(member.program), "", (), "", "", False, 0.0,
    )  # fmt: skip
    try:
        judged = verdict(member, bench.contract, folder, bench.folder / "oracles", seed=job.seed)
        row = replace(
            row, outcome=judged.outcome, failed=judged.failed, message=judged.message[:300], died=judged.died,
            killed=judged.killed and not judged.died, tensors=_kept(bench, job, folder),
        )  # fmt: skip
    except Refusal as refusal:
        row = replace(row, outcome="broken", message=str(refusal)[:300])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(row, seconds=round(time.monotonic() - started, 2))


def _kept(bench: Bench, job: Job, folder: Path) -> str:
    """A file with what the example's calls gave, of seed 0 alone; empty where the subject left nothing."""
    left = folder / MAIN.name / OUTPUTS
    if job.seed or not left.is_file():
        return ""
    prepared = json.loads((folder / "prepare.json").read_text())
    oracle = bench.folder / "oracles" / f"{prepared['oracle']}.oracle"
    calls = expectation.load(oracle, prepared["oracle_sha256"])[example.NAME]
    kept = {
        f"eager|{number}|{key}": value
        for number, call in enumerate(calls)
        for key, value in call.eager.tensors.items()
        if key.startswith(KINDS_OF_TENSORS)
    }
    for name, value in read_tensors(left).items():
        trial, number, key = name.split("|", 2)
        if trial == example.NAME and key.startswith(KINDS_OF_TENSORS):
            kept[f"seen|{number}|{key}"] = value
    path = bench.folder / "tensors" / f"{job.name.replace(' ', '-')}.tensors"
    write_tensors(path, kept)
    return str(path)


def _probed(contract: Mapping[str, Any], of: tuple[Job, ...]) -> list[tuple[str, bool]]:
    """Where each job shows first, and whether its site ran; where one ends the child, each has a child of its own."""
    together = apart(_activities, contract, of)
    if together.answer is not None:
        return together.answer
    alone = [apart(_activities, contract, (job,)) for job in of]
    return [item.answer[0] if item.answer else (item.death, True) for item in alone]


def _activities(contract: Mapping[str, Any], of: Sequence[Job]) -> list[tuple[str, bool]]:
    probes: dict[Path, Probe] = {}
    found = [active(_member(job), probes, parse_contract(contract)) for job in of]
    return [(item.where, item.reached) for item in found]


def _member(job: Job) -> Member:
    can_load()
    program = _program(job.path)
    mutant = plant(fault_of(job.kind), program, job.number)
    if mutant is None:
        raise Refusal(f"{program.source} has no place for {job.kind}", next_step="plant it in another program")
    return Member(program, job.path, mutant)


@cache
def _program(path: Path) -> Program:
    return Program.load(path)


def _dtypes(program: Program) -> str:
    names = {str(value.dtype).removeprefix("torch.") for value in program.inputs.values()}
    return "+".join(sorted(names))


def can_load() -> None:
    """The population's modules can be imported, and nothing starts a thread before a fork."""
    torch.set_num_threads(1)
    if str(PROGRAMS) not in sys.path:
        sys.path.insert(0, str(PROGRAMS))
