"""The ``inductor`` backend: ``torch.compile`` over the captured graph. The artifact is its folder of compile caches.

Inductor's caches answer only at the path they were built at, so a candidate is built where it will be unpacked; the
folder is emptied first, because a cache hit decides nothing and would leave the manifest empty. Only libraries that the
C++ compiler built before are taken from elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch._dynamo.exc import Unsupported

from tensorfarm.compiler.inductor_decisions import Recorder, recording
from tensorfarm.compiler.inductor_sites import Switchboard, switching
from tensorfarm.compiler.kernel_pool import kernel_pool, reusing_kernels
from tensorfarm.compiler.pipeline import pass_digests, users_code
from tensorfarm.compiler.sequence import Decided
from tensorfarm.compiler.task import Lowered, Task, UnsupportedByBackend
from tensorfarm.contract import inductor_runtime
from tensorfarm.contract.executable import executable
from tensorfarm.contract.manifest import Entry, EntryKind

_LOCKS = "locks"


def lower(task: Task) -> Lowered:
    """Compile forward, and backward in training mode. Raises UnsupportedByBackend for what Inductor cannot do."""
    _refuse_another_target(task)
    place = inductor_runtime.build_path(task.candidate_id)
    custom = dict(task.pipeline.backend.options).get("post_grad", "")
    identity = f"{custom} {pass_digests(task.pipeline)[custom]}" if custom else ""
    settings = {**inductor_runtime.SETTINGS, inductor_runtime.CUSTOM_PASS: identity}
    recorder = Recorder(task.program.graph.nodes, "joint" if task.mode == "training" else "forward")
    with inductor_runtime.held(place):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            inductor_runtime.apply_settings(place, settings)
            if custom:
                passed = inductor_runtime.CustomPass(identity, users_code(custom))
                torch._inductor.config.post_grad_custom_post_pass = passed
            board = Switchboard(recorder, task.switches, custom)
            with recording(recorder), switching(board), reusing_kernels(kernel_pool(task.toolchain)):
                _run_once(task)
            _refuse_unkept(inductor_runtime.cache_evidence())
            files = _kept(place, task.scratch)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return Lowered(
        runtime="inductor",
        graph=task.program.graph,
        weights=task.program.weights,
        decided=[*_flags(task, settings), *recorder.decided],
        options={"build_path": str(place), "settings": settings, "mode": task.mode},
        runtime_files=files,
    )


def _refuse_another_target(task: Task) -> None:
    if task.target.partition("/")[0] != "cpu":
        raise UnsupportedByBackend(f"inductor artifacts for target {task.target!r} are not built", limit="known: cpu")


def _run_once(task: Task) -> None:
    """Run forward and backward, which is what compiles them, on copies: a program may write to inputs and buffers."""
    program = task.program
    weights = {name: tensor.clone() for name, tensor in program.weights.items()}
    call = inductor_runtime.compiled(executable(program.graph, weights))
    flags = {item.name: item.requires_grad for item in program.graph.inputs}
    inputs = [tensor.clone().requires_grad_(flags[name]) for name, tensor in program.inputs.items()]
    try:
        if task.mode == "inference":
            with torch.no_grad():
                call(*inputs)
            return
        outputs = [value for value in call(*inputs) if isinstance(value, torch.Tensor) and value.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(value) for value in outputs])
    except Unsupported as error:
        raise UnsupportedByBackend(f"inductor cannot compile the graph: {str(error).splitlines()[0]}") from error


def _refuse_unkept(evidence: Mapping[str, int]) -> None:
    """What a cache answered decided nothing here; what bypassed the caches could not be loaded anywhere else."""
    bypassed = [name for name in evidence if "bypass" in name]
    if bypassed:
        raise UnsupportedByBackend(f"inductor's caches did not take the graph: {', '.join(bypassed)}")
    answered = [name for name in evidence if name.endswith("hit")]
    if answered:
        raise RuntimeError(f"a fresh build folder answered: {', '.join(answered)}")


def _kept(place: Path, scratch: Path) -> dict[str, Path]:
    """Move the cache files aside, since the build path is given back; lock files stay behind."""
    kept = scratch / "caches"
    shutil.move(place, kept)
    files = sorted(path for path in kept.rglob("*") if path.is_file())
    named = {path.relative_to(kept).as_posix(): path for path in files}
    return {name: path for name, path in named.items() if not name.startswith(_LOCKS)}


def _flags(task: Task, settings: Mapping[str, Any]) -> list[Decided]:
    told: dict[str, Any] = {**settings, "mode": task.mode, "torch": torch.__version__}
    return [Decided(Entry(EntryKind.FLAG, name, attributes={"value": str(value)})) for name, value in told.items()]
