"""What a verdict costs, in units of one eager forward and backward pass of the program that is judged.

``prepare``, ``run`` and ``decide`` are each a child that is forked from this process, which has done what the farm's
warm parents of judges do (``gate.warm``): starting an interpreter and imports are left out. Everything else that a step
does counts: reading its request, all files, the subject's loading, the first call's page faults. One thread.

The unit is the median of passes in children of the same kind, some before and some after the steps, the first pass of
each left out. Where ``torch.compile`` is judged, its child imports the compiler before the clock starts, and what
TorchDynamo's own records say that compilations took is taken off ``run``.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
import yaml
from gate_population import PROGRAMS, captured
from report import Goal, finish

from tensorfarm.contract.capture import built
from tensorfarm.contract.contract_template import Draft, rendered
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.exchange import read_request
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import judge, warm
from tensorfarm.gate.calling import Values, differentiable, evaluate
from tensorfarm.gate.reference import ModuleCallee, leaves_of
from tensorfarm.gate.step import FUNCTIONS
from tensorfarm.gate.subject import captured as captured_graph
from tensorfarm.gate.subject import run as subject
from tensorfarm.gate.trial import Derivative

SOURCES = ("sized:bert", "sized:gpt2", "sized:residual", "sized:speech", "sized:wide_batch")
COMPILED = ("sized:bert",)  # at the quick level: a compilation takes minutes on a small machine
LIMITS = {"quick": 3.0, "standard": 15.0}
COLD_LIMIT = 60.0
LONG_ENOUGH_SECONDS = 0.01
STEPS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "prepare": judge.prepare,
    "run": subject.run,
    "decide": judge.decide,
}
LOADED = (captured_graph, symbolic_shapes)  # forked children find them, as they do the steps
FIELDS: dict[str, Any] = yaml.safe_load(rendered(Draft("cost", "2026-01-01", "float32", "float32", "float32")))
FIELDS["numerics"]["dtypes"] = {"inputs": "any", "params": "any", "outputs": "any"}


@dataclass(frozen=True)
class Cost:
    """Seconds of one call in a child by the clock, and those of them that compilations took."""

    wall_seconds: float
    compile_seconds: float
    gave: Any


def in_child(call: Callable[[], Any], before: Callable[[], object] = int) -> Cost:
    """``before`` is called before the clocks start. Refuses what ends the child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            torch.set_num_threads(1)
            before()
            started = time.perf_counter()
            gave = call()
            cost = Cost(time.perf_counter() - started, _compile_seconds(), gave)
            with os.fdopen(writer, "wb") as stream:
                pickle.dump(cost, stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        told = stream.read()
    if os.waitpid(child, 0)[1] or not told:
        raise Refusal("a child of the benchmark ended before it was done", next_step="run its step on its own")
    return pickle.loads(told)


def _compile_seconds() -> float:
    dynamo = sys.modules.get("torch._dynamo.utils")
    records = dynamo.get_compilation_metrics() if dynamo else ()
    return sum((record.duration_us or 0) for record in records) / 1e6


def eager(source: str, passes: int = 7) -> list[float]:
    """Seconds of forward and backward passes, the first left out."""
    module, args, kwargs = built(source)
    leaves, in_spec = leaves_of(args, kwargs)
    callee = ModuleCallee(module, in_spec)
    given = {
        leaf.name: leaf.literal if leaf.example is None else leaf.example.requires_grad_(leaf.requires_grad)
        for leaf in leaves
    }
    found: list[float] = []
    for _ in range(passes + 1):
        started = time.perf_counter()
        evaluate(
            callee,
            given,
            Derivative.VJP,
            lambda values: {at: torch.ones_like(values[at]) for at in differentiable(values)},
            Values(),
        )
        found.append(time.perf_counter() - started)
    return found[1:]


@dataclass(frozen=True)
class Measured:
    """Ratios of wall time to one eager pass of ``unit_seconds``. ``calls`` are all, ``backward`` those that are
    differentiated."""

    unit_seconds: float
    cold: float
    prepare: float
    run: float
    decide: float
    calls: int
    backward: int
    oracle_bytes: int
    outcome: str

    @property
    def total(self) -> float:
        return self.prepare + self.run + self.decide


def measured(source: str, path: Path, level: str, subject_of: Mapping[str, Any] | None, folder: Path) -> Measured:
    """Judge one program twice, so that the second time finds its oracle. Refuses an oracle that is not found again."""
    program_sha256 = sha256_file(path)
    request: dict[str, Any] = {
        "subject": subject_of or {"kind": "captured", "path": str(path), "sha256": program_sha256},
        "candidate_id": source,
        "program": str(path),
        "program_sha256": program_sha256,
        "semantic_hash": Program.load(path, program_sha256).semantic_hash,
        "mode": "training",
        "level": level,
        "contract": FIELDS,
        "ir_contract": None,
        "oracle_cache": str(folder / "oracles"),
        "seed": 0,
        "threads": 1,
    }
    passes: list[float] = in_child(lambda: eager(source)).gave
    cold = _step("prepare", {**request, "folder": str(folder / "cold")})
    again = {**request, "folder": str(folder / "again")}
    prepare = _step("prepare", again)
    if not prepare.gave["cached"]:
        raise Refusal(f"the oracle of {source} was not found again", next_step="leave the gate's code alone meanwhile")
    run = _step("run", again)
    decide = _step("decide", {**again, "before": {FUNCTIONS["prepare"]: prepare.gave}})
    passes += in_child(lambda: eager(source)).gave
    unit = statistics.median(passes)
    calls = [call for trial in read_request(folder / "again").trials for call in trial.calls]
    return Measured(
        unit_seconds=unit,
        cold=cold.wall_seconds / unit,
        prepare=prepare.wall_seconds / unit,
        run=(run.wall_seconds - run.compile_seconds) / unit,
        decide=decide.wall_seconds / unit,
        calls=len(calls),
        backward=sum(call.derivative not in ("", Derivative.GRAPH) for call in calls),
        oracle_bytes=next((folder / "oracles").iterdir()).stat().st_size,
        outcome=decide.gave["outcome"],
    )


def _step(name: str, request: Mapping[str, Any]) -> Cost:
    Path(request["folder"]).mkdir(parents=True, exist_ok=True)
    compiles = name == "run" and request["subject"]["kind"] == "compiled"
    return in_child(lambda: STEPS[name](request), _load_compiler if compiles else int)


def _load_compiler() -> None:
    """In a child alone: a judge, which is forked from this process too, may not hold a compiler."""
    from tensorfarm.contract.inductor_runtime import warm_toolchain

    importlib.import_module("torch._inductor.compile_fx")
    importlib.import_module("tensorfarm.gate.subject.compiled")
    warm_toolchain()


def goals(quick: bool) -> tuple[list[Goal], dict[str, Any]]:
    """One goal for each program, level and kind of subject. ``quick``: one program, which is not compiled."""
    warm.judges()
    gc.freeze()  # a child's collector then leaves the pages alone that it shares with this process
    torch.set_num_threads(1)
    sys.path.insert(0, str(PROGRAMS))
    found: list[Goal] = []
    details: dict[str, Any] = {}
    sources = SOURCES[:1] if quick else SOURCES
    with tempfile.TemporaryDirectory(prefix="tensorfarm-cost-") as name:
        paths = captured(Path(name) / "programs", sources)
        asked: list[tuple[str, str, str]] = [(source, level, "captured") for source in sources for level in LIMITS]
        asked += [] if quick else [(source, "quick", "compiled") for source in COMPILED]
        for source, level, kind in asked:
            told = f"{source.partition(':')[2]} {kind}, {level}"
            compiled = {"kind": "compiled", "source": source, "python_path": [str(PROGRAMS)], "backend": "inductor"}
            folder = Path(name) / told.replace(" ", "-")
            cost = measured(source, paths[source], level, compiled if kind == "compiled" else None, folder)
            (folder / "oracles").chmod(0o755)  # the gate closes it, and it goes now
            if cost.unit_seconds < LONG_ENOUGH_SECONDS or cost.outcome != "admitted":
                raise Refusal(
                    f"{told}: {cost.outcome}, a pass takes {cost.unit_seconds:.3f} s", limit="admitted, 0.01 s"
                )
            details[told] = {**asdict(cost), "total": cost.total}
            print(f"{told}: {details[told]}", flush=True)
            found.append(Goal(told, f"<= {LIMITS[level]:g} eager passes", cost.total, cost.total <= LIMITS[level]))
            if level == "quick" and kind == "captured":
                met = cost.cold <= COLD_LIMIT
                found.append(Goal(f"{told}, cold oracle", f"<= {COLD_LIMIT:g} eager passes", cost.cold, met))
    return found, details


if __name__ == "__main__":
    finish("gate_cost-quick" if "--quick" in sys.argv else "gate_cost", *goals("--quick" in sys.argv))
