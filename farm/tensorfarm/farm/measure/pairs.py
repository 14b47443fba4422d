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
    """Time ABBA groups of steps, in seconds; returns two rows of the ``measurements`` table for each side.

    ``request``: program and artifact (paths), program_sha256, artifact_sha256, candidate_id, mode, pairs (number of
    groups), seed, threads. Raises CorruptBundle or Refusal where the files are not the ones asked for, and
    ``RecompileBlocked`` where the artifact's own code does not answer: nothing is compiled here.
    """
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    program = Program.load(Path(request["program"]), request["program_sha256"])
    reference = Reference(program)
    steps = {"eager": _eager_step(reference, request["mode"]), "candidate": _candidate_step(reference, request)}
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


def _eager_step(reference: Reference, mode: str) -> Callable[[], None]:
    inputs = reference.fresh_inputs(wide=False)
    args, kwargs = reference.arguments(inputs)
    differentiated = list(reference.differentiated(inputs).values())
    return _step(lambda: pytree.tree_leaves(reference.module(*args, **kwargs)), differentiated, mode)


def _candidate_step(reference: Reference, request: Mapping[str, Any]) -> Callable[[], None]:
    """On inputs of its own, with gradients by the artifact's tensors of the same names."""
    loaded = load_artifact(Path(request["artifact"]), request["artifact_sha256"], request["candidate_id"])
    inputs = reference.fresh_inputs(wide=False)
    own = {**loaded.parameters, **inputs}
    differentiated = [own[name] for name in reference.differentiated(inputs)]
    return _step(lambda: loaded.call(*inputs.values()), differentiated, request["mode"])


def _step(
    forward: Callable[[], Sequence[Any]], differentiated: Sequence[torch.Tensor], mode: str
) -> Callable[[], None]:
    def inference() -> None:
        with torch.no_grad():
            forward()

    def training() -> None:
        outputs = [item for item in forward() if isinstance(item, torch.Tensor) and item.requires_grad]
        torch.autograd.grad(outputs, differentiated, [torch.ones_like(item) for item in outputs], allow_unused=True)

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
