"""Runner of mutants: builds one from program, kind and number, in the process that is judged.

One in a graph is what an artifact is: built for one shape. A live one is the original module with something wrong
around it, and takes whatever the original does.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.faults.catalogue import fault_of
from tensorfarm.gate.faults.fault import Change, Mutant, plant
from tensorfarm.gate.faults.interpreted import Interpreted
from tensorfarm.gate.reference import reference_of_program
from tensorfarm.gate.subject import specialised
from tensorfarm.gate.subject.load import Loaded, Prepare, Tensors, by_leaves, tensors_of_module


def load(
    subject: Mapping[str, Any], request: SubjectRequest, device: str = "cpu", prepare: Prepare | None = None
) -> Loaded:
    """``subject``: ``program`` (a file), ``fault``, ``seed``, ``python_path``."""
    folders = [str(folder) for folder in subject.get("python_path", ())]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    program = Program.load(Path(subject["program"]))
    change = mutant_of(program, str(subject["fault"]), int(subject["seed"])).change
    if change.wrap is None:
        return of_graph(program, change)
    pristine = _pristine(str(subject["program"]))
    return of_module(lambda: copy.deepcopy(pristine), change, request.in_spec, prepare)


@cache
def _pristine(program: str) -> torch.nn.Module:
    """Built once and copied: what a mutant leaves behind in the process must not spoil the next trial's weights."""
    return reference_of_program(Program.load(Path(program))).build()


def mutant_of(program: Program, fault: str, seed: int) -> Mutant:
    """Refuses a kind that has no place in the program."""
    mutant = plant(fault_of(fault), program, seed)
    if mutant is None:
        raise Refusal(f"{program.source} has no place for {fault}", next_step="plant it in another program")
    return mutant


def of_module(
    build: Callable[[], torch.nn.Module], change: Change | None, in_spec: str, prepare: Prepare | None = None
) -> Loaded:
    """What ``build`` makes, with the change around it; without one, as it is."""
    module = prepare(build()) if prepare else build()
    call = module if change is None or change.wrap is None else change.wrap(module)
    return Loaded(
        run=by_leaves(call, in_spec),
        evidence=lambda: {"runtime": "mutant"},
        fresh=lambda: of_module(build, change, in_spec, prepare),
        tensors=lambda: tensors_of_module(module),
        module=module,
    )


def of_graph(program: Program, change: Change | None) -> Loaded:
    """The changed graph; with None the program's own, run in the same way."""
    graph = program.graph if change is None or change.graph is None else change.graph
    module = Interpreted(program, graph, change.operators if change else None)
    buffers = {weight.target for weight in graph.weights.values() if weight.kind is WeightKind.BUFFER}

    def tensors() -> Tensors:
        found = {name: value for name, value in module.named_buffers() if name in buffers}
        return Tensors(dict(module.named_parameters()), found)

    return Loaded(
        run=specialised.of_graph(graph, module, program.returns),
        evidence=lambda: {"runtime": "mutant"},
        fresh=lambda: of_graph(program, change),
        tensors=tensors,
    )
