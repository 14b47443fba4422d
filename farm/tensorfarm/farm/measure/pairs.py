"""The bench job: an admitted artifact against eager, interleaved ABBA, in one fresh child. Samples stay in run order.

Both sides run the same step on the same inputs: forward, and in training mode the gradients for the same cotangents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.program import Program
from tensorfarm.gate.reference import Reference
from tensorfarm.gate.subject.load import load_artifact

WARM_UP_STEPS = 3
_ABBA = ("eager", "candidate", "candidate", "eager")
_BAAB = ("candidate", "eager", "eager", "candidate")


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Time ``request["pairs"]`` ABBA groups; returns one row of the ``measurements`` table for each side.

    Loading compiles nothing: the loader raises where the artifact's bytes do not answer.
    """
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    program = Program.load(Path(request["program"]), request["program_sha256"])
    steps = {"eager": _eager_step(program, request["mode"]), "candidate": _candidate_step(program, request)}
    first = {name: _timed(step) for name, step in steps.items()}
    for step in steps.values():
        for _ in range(WARM_UP_STEPS):
            step()
    samples: dict[str, list[float]] = {"eager": [], "candidate": []}
    for group in range(request["pairs"]):
        for name in _ABBA if group % 2 == 0 else _BAAB:
            samples[name].append(_timed(steps[name]))
    environment = sha256_json({"threads": request["threads"], "torch": torch.__version__})[:16]
    rows = [_row(request, name, "step_seconds", True, values, environment) for name, values in samples.items()]
    rows += [_row(request, name, "first_step_seconds", False, [value], environment) for name, value in first.items()]
    return {"measurements": rows}


def _timed(step: Callable[[], None]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def _candidate_step(program: Program, request: Mapping[str, Any]) -> Callable[[], None]:
    loaded = load_artifact(Path(request["artifact"]), request["artifact_sha256"], request["candidate_id"])
    inputs = _inputs(program)
    trained = [loaded.parameters[weight.name] for weight in program.graph.weights.values() if weight.requires_grad]
    return _step(lambda: loaded.call(*inputs.values()), [*trained, *_wanting(inputs)], request["mode"])


def _eager_step(program: Program, mode: str) -> Callable[[], None]:
    module = Reference(program).module
    named = dict(module.named_parameters(remove_duplicate=False))
    trained = [named[weight.target] for weight in program.graph.weights.values() if weight.requires_grad]
    inputs = _inputs(program)
    leaves = [item.literal if item.spec is None else inputs[item.name] for item in program.graph.inputs]
    args, kwargs = pytree.tree_unflatten(leaves, pytree.treespec_loads(program.in_spec))
    return _step(lambda: pytree.tree_leaves(module(*args, **kwargs)), [*trained, *_wanting(inputs)], mode)


def _inputs(program: Program) -> dict[str, torch.Tensor]:
    return {
        item.name: program.inputs[item.name].clone().requires_grad_(item.requires_grad)
        for item in program.graph.inputs
        if item.spec is not None
    }


def _wanting(inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for tensor in inputs.values() if tensor.requires_grad]


def _step(
    forward: Callable[[], Sequence[Any]], differentiable: Sequence[torch.Tensor], mode: str
) -> Callable[[], None]:
    def inference() -> None:
        with torch.no_grad():
            forward()

    def training() -> None:
        outputs = [item for item in forward() if isinstance(item, torch.Tensor) and item.requires_grad]
        torch.autograd.grad(outputs, differentiable, [torch.ones_like(item) for item in outputs], allow_unused=True)

    return training if mode == "training" else inference


def _row(
    request: Mapping[str, Any], variant: str, metric: str, warm: bool, samples: Sequence[float], environment: str
) -> dict[str, Any]:
    ordered = sorted(samples)
    return {
        "metric": metric,
        "unit": "s",
        "device": "cpu",
        "environment_id": environment,
        "variant": variant,
        "warm": warm,
        "samples": list(samples),
        **{f"p{percent}": _quantile(ordered, percent / 100) for percent in (10, 50, 90)},
    }


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan's type 7)."""
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
