"""The reproducer job: writes the script of a bisection's culprit in a child, and runs it to see it fail.

Invariant: ``reproduced`` is True only where the script was seen to fail in a fresh process and to pass in another one
with the culprit off. A script that does not is kept all the same.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensorfarm.bisect.failure import Failure, ValueKind
from tensorfarm.bisect.inductor_code import InductorSite, Question
from tensorfarm.bisect.reproducer import SCRIPT, Lowerings, Story, script_of_inductor, script_of_passes
from tensorfarm.bisect.torch_code import identifier
from tensorfarm.compiler.inductor_sites import (
    DECOMPOSITION,
    LOWERINGS,
    PASSES,
    REQUIRED_DECOMPOSITIONS,
    REQUIRED_PASSES,
)
from tensorfarm.compiler.passes.fold_constants import evaluated
from tensorfarm.compiler.pipeline import Pipeline, parse, resolved
from tensorfarm.compiler.sequence import run_passes
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph, OutputKind
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.switches import Switches
from tensorfarm.gate.calling import differentiable
from tensorfarm.gate.cotangents import cotangents_of
from tensorfarm.gate.trial import Cotangent

# Each of the two runs imports torch and, for Inductor, compiles the whole program.
_SECONDS = {"fx": 120.0, "inductor": 300.0}


def write_reproducer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the script with its tensors, and run it with and without the culprit.

    ``request``: program (path), program_sha256, mode, pipeline, python_path, ordinal of the culprit, its pass_name,
    site and nodes, how Inductor asked for it (subsystem, told, occurrence), finding (the failing row of the verdict),
    folder (to write to), threads. Returns ``reproducer`` (path of the script, empty where the failure has no element to
    compare), ``reproduced`` and ``message``, one line.
    """
    torch.set_num_threads(int(request["threads"]))
    sys.path[:0] = [folder for folder in request["python_path"] if folder not in sys.path]
    program = Program.load(Path(request["program"]), request["program_sha256"])
    pipeline = parse(request["pipeline"])
    try:
        failure = Failure.of(request["finding"], program.graph)
    except Refusal as refusal:
        return {"reproducer": "", "reproduced": False, "message": str(refusal)}
    cotangents = _Cotangents.of(program, failure)
    script = Path(request["folder"]) / SCRIPT
    script.parent.mkdir(parents=True, exist_ok=True)
    written = _inductor if pipeline.backend.name == "inductor" else _passes
    trouble = list[str]()
    # First the whole compilation; where a later site breaks it too, only with the later ones off does the culprit tell.
    for later_off in (False, True):
        source, tensors = written(program, pipeline, failure, cotangents.roots, request, later_off)
        script.write_text(source)
        torch.save({"tensors": tensors, "cotangents": cotangents.tensors}, script.with_suffix(".pt"))
        trouble.append(_trouble(script, _SECONDS[pipeline.backend.name]))
        if not trouble[-1]:
            return {"reproducer": str(script), "reproduced": True, "message": "seen to fail, and to pass with it off"}
    return {"reproducer": str(script), "reproduced": False, "message": trouble[0]}


@dataclass(frozen=True)
class _Cotangents:
    """``roots`` are the positions of the differentiable outputs among the graph's; one tensor for each."""

    roots: list[int]
    tensors: list[torch.Tensor]

    @staticmethod
    def of(program: Program, failure: Failure) -> _Cotangents:
        """Those of the gate's oracle, since the limit is for them."""
        if failure.kind is not ValueKind.GRADIENT:
            return _Cotangents([], [])
        weights = {name: tensor.clone() for name, tensor in program.weights.items()}
        values = executable(program.graph, weights)(*_inputs(program).values())
        places = [at for at, output in enumerate(program.graph.outputs) if output.kind is OutputKind.USER]
        drawn = cotangents_of(values, differentiable(values), Cotangent.NORMAL, failure.seed)
        return _Cotangents([places[position] for position in drawn], list(drawn.values()))


def _inputs(program: Program) -> dict[str, torch.Tensor]:
    wanting = {item.name: item.requires_grad for item in program.graph.inputs}
    return {name: tensor.clone().requires_grad_(wanting[name]) for name, tensor in program.inputs.items()}


def _tensors(program: Program) -> dict[str, torch.Tensor]:
    """Inputs and weights as leaves of their own; those that are trained say so."""
    weights = {
        name: program.weights[name].clone().requires_grad_(weight.requires_grad)
        for name, weight in program.graph.weights.items()
    }
    return {**_inputs(program), **weights}


def _passes(
    program: Program,
    pipeline: Pipeline,
    failure: Failure,
    roots: Sequence[int],
    request: Mapping[str, Any],
    later_off: bool,
) -> tuple[str, dict[str, torch.Tensor]]:
    """The script and its tensors, for a site of our own passes."""
    culprit = int(request["ordinal"])
    compiled, off = program.graph.copy(), program.graph.copy()
    run_passes(compiled, resolved(pipeline), Switches(culprit + 1) if later_off else Switches())
    run_passes(off, resolved(pipeline), Switches(culprit) if later_off else Switches(None, frozenset({culprit})))
    lowerings = Lowerings(program.graph, compiled, off)
    known = _tensors(program) | _folded(program.graph, compiled) | _folded(program.graph, off)
    tensors = {identifier(name): known[name] for name in lowerings.tensors(failure, roots)}
    return script_of_passes(_story(program, request, later_off), failure, roots, lowerings), tensors


def _folded(captured: Graph, lowered: Graph) -> dict[str, torch.Tensor]:
    """Constants that the passes made: a weight of the lowered graph alone, called like what it stands for."""
    made = [weight for weight in lowered.weights.values() if weight.name not in captured.weights]
    return {weight.name: evaluated(captured, weight.target) for weight in made}


def _inductor(
    program: Program,
    pipeline: Pipeline,
    failure: Failure,
    roots: Sequence[int],
    request: Mapping[str, Any],
    later_off: bool,
) -> tuple[str, dict[str, torch.Tensor]]:
    """The script and its tensors, for a site of Inductor. The source of the user's own pass is laid beside it."""
    custom = dict(pipeline.backend.options).get("post_grad", "")
    if custom:
        source = importlib.import_module(custom.rpartition(".")[0]).__file__
        shutil.copy(str(source), request["folder"])
    training = request["mode"] == "training"
    required = tuple(sorted((*REQUIRED_PASSES, *REQUIRED_DECOMPOSITIONS)))
    asked = request["asked"]
    question = Question(asked["subsystem"], asked["told"], int(asked["occurrence"]))
    site = InductorSite(question, PASSES, (DECOMPOSITION, LOWERINGS), required, custom, training)
    tensors = {identifier(name): tensor for name, tensor in _tensors(program).items()}
    return script_of_inductor(_story(program, request, later_off), failure, roots, program.graph, site), tensors


def _story(program: Program, request: Mapping[str, Any], later_off: bool) -> Story:
    return Story(
        program=program.source,
        pipeline=request["pipeline"],
        pass_name=request["pass_name"],
        site=request["site"],
        nodes=tuple(request["nodes"]),
        verdict=request["finding"]["message"],
        torch_version=torch.__version__,
        later_off=later_off,
    )


def _trouble(script: Path, seconds: float) -> str:
    """What is wrong with the script; nothing where it fails as it stands and passes with the culprit off.

    The two runs are side by side: for Inductor each compiles the whole program, which is most of a search's last wait.
    """
    with ThreadPoolExecutor(2) as runs:
        as_it_stands = runs.submit(_run_trouble, script, [], 1, seconds)
        without = runs.submit(_run_trouble, script, ["--off"], 0, seconds)
        return as_it_stands.result() or without.result()


def _run_trouble(script: Path, arguments: Sequence[str], wanted: int, seconds: float) -> str:
    """What is wrong with one run; nothing where it exits with ``wanted`` and its last word says the same."""
    called = " ".join([script.name, *arguments])
    try:
        run = subprocess.run(
            [sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{called} did not end within {seconds:g} s"
    # A script that raises exits with 1 as well: it has shown nothing.
    if run.returncode != wanted or not run.stdout.rstrip().endswith("agrees" if wanted == 0 else "fails"):
        last = (run.stderr or run.stdout).strip().splitlines()[-1:] or ["nothing"]
        return f"{called} exited with {run.returncode} (expected {wanted}): {last[0]}"
    return ""
