"""What the gate is proved on: programs, faults planted in them, honest variants of them; and one verdict on each.

A member is (program, kind, number) and nothing else. Verdicts come from the gate's own steps, each in a child that is
forked from this process, which has imported and computed nothing. Sessions on other devices and toolchains are run
where a family needs them.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gate_children import apart

from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import judge, step
from tensorfarm.gate.faults.activity import Activity, Probe
from tensorfarm.gate.faults.catalogue import faults, honest
from tensorfarm.gate.faults.fault import Fault, Mutant, plant
from tensorfarm.gate.processes import run_sessions
from tensorfarm.gate.step import CASE, FUNCTIONS
from tensorfarm.gate.subject import run as subject
from tensorfarm.gate.trial import MAIN

PROGRAMS = Path(__file__).resolve().parent / "population"
SPECIMENS = (
    *("mlp", "normed", "faint", "classifier", "attention", "square_attention", "pooling", "embedding", "selection"),
    *("integer_arithmetic", "broadcasting", "square", "mixed_dtypes", "scattering", "views", "totals", "half_totals"),
    *("long_sum", "special", "casting", "rows", "twins"),
)
STATEFUL = ("convnet", "history", "noisy", "tuned", "lookup")
SOURCES = tuple(f"specimens:{name}" for name in SPECIMENS) + tuple(f"stateful:{name}" for name in STATEFUL)
IN_SESSIONS = frozenset({"devices", "toolchains"})
LOADED = (judge, subject)  # a forked child finds them, and starts in no time
_CAPTURE = """
import sys
from pathlib import Path
from tensorfarm.contract.capture import capture
for source in sys.argv[2:]:
    capture(source).save(Path(sys.argv[1]) / (source.replace(":", "_") + ".program"))
"""


@dataclass(frozen=True)
class Member:
    """A mutant or an honest variant, and the file that its program lies in."""

    program: Program
    path: Path
    mutant: Mutant

    @property
    def name(self) -> str:
        return f"{self.mutant.fault_id} {self.program.source} {self.mutant.seed}"


@dataclass(frozen=True)
class Judged:
    """``failed`` are the families that alarm was raised by; ``killed`` says that a listed one did, with a conformance
    failure and not a crash. ``died`` is how a step ended that should have lived."""

    member: Member
    outcome: str
    failed: tuple[str, ...]
    message: str
    died: str = ""

    @property
    def killed(self) -> bool:
        return self.outcome == "conformance_failure" and bool(set(self.failed) & set(self.member.mutant.families))


def captured(folder: Path, sources: Sequence[str] = SOURCES) -> dict[str, Path]:
    """Program files by source. A process of its own captures: it loads a compiler, which no judge may hold."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), *sys.path])}
    command = [sys.executable, "-W", "ignore", "-c", _CAPTURE, str(folder), *sources]
    subprocess.run(command, check=True, env=environment)
    return {source: folder / (source.replace(":", "_") + ".program") for source in sources}


def members(paths: Mapping[str, Path], kinds: Sequence[Fault], seeds: int) -> Iterator[Member]:
    """Every kind in every program that has a place for it, at most ``seeds`` of its places, no place twice."""
    torch.set_num_threads(1)
    if str(PROGRAMS) not in sys.path:
        sys.path.insert(0, str(PROGRAMS))
    for path in paths.values():
        program = Program.load(path)
        for kind in kinds:
            places = len(list(kind.changes(program)))
            for seed in range(min(places, seeds)):
                mutant = plant(kind, program, seed)
                if mutant is not None:
                    yield Member(program, path, mutant)


def mutants(paths: Mapping[str, Path], seeds: int = 1) -> Iterator[Member]:
    return members(paths, faults(), seeds)


def variants(paths: Mapping[str, Path], seeds: int = 2) -> Iterator[Member]:
    return members(paths, honest(), seeds)


def active(member: Member, probes: dict[Path, Probe], contract: Any) -> Activity:
    """Whether the member differs from its program at all; ``probes`` are kept between calls, one a program."""
    if member.path not in probes:
        probes[member.path] = Probe(member.program, contract, mode_of(member.program))
    return probes[member.path].activity(member.mutant)


def mode_of(program: Program) -> str:
    """A program that wants no gradient is judged without: a whole family would have nothing to say."""
    wants = any(item.requires_grad for item in (*program.graph.inputs, *program.graph.weights.values()))
    return "training" if wants else "inference"


def contract_for(member: Member, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The contract's fields, with what the member's family is about declared: levels of the CPU, or invariance."""
    changed = copy.deepcopy(dict(fields))
    changed["numerics"]["dtypes"] = dict.fromkeys(("inputs", "params", "outputs"), "any")
    if "devices" in member.mutant.families:
        changed["devices"] = ["cpu/default", "cpu/avx2", "cpu/avx512"]
    if "batch_invariance" in member.mutant.families:
        changed["determinism"]["batch_invariant"] = True
    return changed


def verdict(
    member: Member, contract: Mapping[str, Any], folder: Path, cache: Path, *, level: str = "full", seed: int = 0
) -> Judged:
    """Judge one member. ``contract`` are the fields of a contract file; ``cache`` keeps oracles between members."""
    folder.mkdir(parents=True)
    cache.mkdir(parents=True, exist_ok=True)
    request: dict[str, Any] = {
        "subject": member.mutant.subject(member.path, [str(PROGRAMS)]),
        "candidate_id": member.name,
        "program": str(member.path),
        "program_sha256": sha256_file(member.path),
        "semantic_hash": member.program.semantic_hash,
        "mode": mode_of(member.program),
        "level": level,
        "contract": contract_for(member, contract),
        "ir_contract": None,
        "folder": str(folder),
        "oracle_cache": str(cache),
        "seed": seed,
        "threads": 1,
    }
    prepared = _step("prepare", request)
    death = _forked("run", request)
    told: dict[str, Any] = {FUNCTIONS["prepare"]: prepared}
    if IN_SESSIONS & set(member.mutant.families):
        told[FUNCTIONS["run_sessions"]] = run_sessions({**request, "before": told, "python_path": [str(PROGRAMS)]})
    else:
        _run_alike(prepared, request)
    deaths = {FUNCTIONS["run"]: {"kind": "exit", "message": death}} if death else {}
    said = _step("decide", {**request, "before": told, "deaths": deaths})
    failed = dict.fromkeys(row["check_name"] for row in said["findings"] if row["status"] == "fail")
    return Judged(member, said["outcome"], tuple(failed), said["message"], death)


def _step(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    ended = _forked(name, request)
    if ended:
        raise Refusal(f"the judge's step {name} of {request['candidate_id']} ended: {ended}")
    return json.loads((Path(request["folder"]) / f"{name}.json").read_text())


def _run_alike(prepared: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Sessions that are another process or another number of threads and no more: a forked child is both."""
    for session in prepared.get("sessions", ()):
        if session["device"] == MAIN.device and not session["environment"]:
            _forked("run", request, session["name"])


def _forked(name: str, request: Mapping[str, Any], session: str = "") -> str:
    """Run one step in a child; how it ended, empty where well."""
    folder = Path(request["folder"])
    (folder / CASE).write_text(json.dumps(request))
    judge.gate_version()  # kept by this process, so that no child reads the gate's files again
    ended = apart(_quietly, name, folder, session)
    return ended.death or (f"exit code {ended.answer}" if ended.answer else "")


def _quietly(name: str, folder: Path, session: str) -> int:
    """What torch and a faulty program print goes to a file beside the case."""
    with (folder / f"{name}.stderr").open("w") as stream:
        os.dup2(stream.fileno(), 2)
        return step.main(name, folder, session)
