"""What is timed: one step of eager or of an artifact, on the program's example inputs.

Both sides run the same step: forward, and in training mode the gradients by the same tensors for cotangents of ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.program import Program
from tensorfarm.farm.measure.sides import Step
from tensorfarm.gate.calling import differentiated
from tensorfarm.gate.reference import reference_of_program
from tensorfarm.gate.subject.load import load_artifact


def eager_step(request: Mapping[str, Any]) -> Step:
    """The program's original module. ``request``: program (path), program_sha256, mode, seed, threads."""
    program = _program(request)
    reference = reference_of_program(program)
    callee = reference.fresh("", changes=False)
    leaves = reference.arguments(program.inputs, {}, wide=False)
    args, kwargs = pytree.tree_unflatten(list(leaves.values()), reference.in_spec)
    wanted = list(differentiated(callee, leaves).values())
    return _step(lambda: pytree.tree_leaves(callee.module(*args, **kwargs)), wanted, request["mode"])


def artifact_step(request: Mapping[str, Any], artifact: Mapping[str, str]) -> Step:
    """``artifact``: its path as ``artifact``, artifact_sha256, candidate_id.

    Gradients are taken by the artifact's tensors of the same names as eager's. Raises CorruptBundle or Refusal where
    the files are not the ones asked for; the step raises ``RecompileBlocked`` where the artifact's own code does not
    answer: nothing is compiled here.
    """
    program = _program(request)
    loaded = load_artifact(Path(artifact["artifact"]), artifact["artifact_sha256"], artifact["candidate_id"])
    reference = reference_of_program(program)
    leaves = reference.arguments(program.inputs, {}, wide=False)
    own = {**loaded.parameters, **{f"input:{name}": value for name, value in leaves.items()}}
    trained = [weight.target for weight in program.graph.weights.values() if weight.requires_grad]
    wanted = [own[name] for name in trained]
    wanted += [value for value in leaves.values() if isinstance(value, torch.Tensor) and value.requires_grad]
    return _step(lambda: loaded.call(leaves).leaves, wanted, request["mode"])


def _program(request: Mapping[str, Any]) -> Program:
    torch.set_num_threads(request["threads"])
    torch.manual_seed(request["seed"])
    return Program.load(Path(request["program"]), request["program_sha256"])


def _step(forward: Callable[[], Sequence[Any]], differentiated: Sequence[torch.Tensor], mode: str) -> Step:
    """A device that computes on its own is waited for: a step ends when its results are there."""
    device = next((item.device.type for item in differentiated if item.device.type != "cpu"), "cpu")
    wait = torch.cuda.synchronize if device == "cuda" else _nothing

    def inference() -> None:
        with torch.no_grad():
            forward()
        wait()

    def training() -> None:
        outputs = [item for item in forward() if isinstance(item, torch.Tensor) and item.requires_grad]
        torch.autograd.grad(outputs, differentiated, [torch.ones_like(item) for item in outputs], allow_unused=True)
        wait()

    return Step(training if mode == "training" else inference, device)


def _nothing() -> None:
    pass
