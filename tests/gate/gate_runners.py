"""Runs subjects as a farm does: in forks of a parent that has imported torch and run no operator.

A subject compiles, patches and dies in its own process, so none is loaded by the process of the tests.
"""

import atexit
import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.artifact import write_artifact
from tensorfarm.contract.exchange import (
    INPUTS,
    OUTPUTS,
    CallRequest,
    SubjectReport,
    SubjectRequest,
    TrialRequest,
    read_report,
    tensor_key,
    write_request,
)
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Manifest
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate.devices import environment_of
from tensorfarm.gate.processes import death_of
from tensorfarm.gate.subject import run

_TRIAL = "example"


@dataclass(frozen=True)
class Ran:
    """What a subject left: its report and tensors by key, None and nothing where it died; and how it died."""

    report: SubjectReport | None
    tensors: Mapping[str, torch.Tensor]
    death: Mapping[str, str] | None

    def output(self, position: int = 0, call: int = 0, trial: str = _TRIAL) -> torch.Tensor:
        return self.tensors[tensor_key(trial, call, f"output:{position}")]

    @property
    def evidence(self) -> Mapping[str, Any]:
        assert self.report is not None
        return self.report.evidence

    def error(self, call: int = 0) -> str:
        """Why it could not be loaded, or why a call raised."""
        assert self.report is not None
        return self.report.error or self.report.calls[_TRIAL][call].error


def artifact(program: Program, place: Path, runtime: str, **files: Path) -> dict[str, Any]:
    """Write an artifact of this runtime and return it as a subject. ``kernels_py`` is the file ``kernels.py``."""
    told = graph_hash(program.graph)
    sha256 = write_artifact(
        place,
        semantic_hash=program.semantic_hash,
        candidate_id="candidate",
        runtime=runtime,
        options={},
        graph=program.graph,
        weights=program.weights,
        manifest=Manifest(program.semantic_hash, runtime, {}, told, told),
        runtime_files={name.replace("_", "."): path for name, path in files.items()},
    )
    return {"kind": "artifact", "path": str(place), "sha256": sha256, "candidate_id": "candidate"}


class Runners:
    """``ran`` runs one subject. Calls are tuples of arguments alike in structure; each trial makes all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
        code = f"import sys; sys.path[:] = {sys.path!r}; import gate_runners; gate_runners.serve()"
        self.parent = subprocess.Popen(
            [sys.executable, *isolation, "-W", "ignore", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "TENSORFARM_BUILD_ROOT": str(folder / "build"),
                "TMPDIR": str(folder),
                "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking CUDA itself would make every fork unfit for it
            },
        )

    def close(self) -> None:
        assert self.parent.stdin is not None
        self.parent.stdin.close()
        self.parent.terminate()  # it has nothing left to do, and an interpreter with torch takes seconds to end
        self.parent.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ran(
        self,
        subject: Mapping[str, Any],
        *calls: tuple[Any, ...],
        trials: Sequence[str] = (_TRIAL,),
        derivative: str = "",
        between: str = "",
        device: str = "cpu",
        **order: Any,
    ) -> Ran:
        self.count += 1
        folder = self.folder / f"{self.count}.subject"
        folder.mkdir()
        first, spec = pytree.tree_flatten((calls[0], {}))
        names = [f"args[{number}]" for number in range(len(first))]
        stored: dict[str, torch.Tensor] = {}
        asked: list[TrialRequest] = []
        for trial in trials:
            requests: list[CallRequest] = []
            for number, call in enumerate(calls):
                leaves = dict(zip(names, pytree.tree_leaves(call), strict=True))
                tensors = {name: value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
                stored |= {tensor_key(trial, number, f"input:{name}"): value for name, value in tensors.items()}
                cotangents = (0,) if derivative else ()
                if derivative:
                    stored[tensor_key(trial, number, "cotangent:0")] = torch.ones(2, 3)
                literals = {name: value for name, value in leaves.items() if name not in tensors}
                requests.append(CallRequest(derivative, cotangents, between if number else "", 0, literals))
            asked.append(TrialRequest(trial, tuple(requests), ("main",)))
        leaves = tuple(
            {"name": name, "literal": None if isinstance(value, torch.Tensor) else value, "requires_grad": False}
            for name, value in zip(names, first, strict=True)
        )
        write_tensors(folder / INPUTS, stored)
        sessions = {"main": {"device": device, "threads": 1}}
        packing = pytree.treespec_dumps(spec)
        write_request(folder, SubjectRequest(subject, "inference", leaves, packing, tuple(asked), sessions))
        code = self.told({"folder": str(folder), "device": device, **order})
        if code:
            return Ran(None, {}, death_of(code))
        return Ran(read_report(folder / "main"), read_tensors(folder / "main" / OUTPUTS), None)

    def told(self, order: Mapping[str, Any]) -> int:
        """Give the parent an order; the child's exit code, negative for a signal."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(order) + "\n")
        self.parent.stdin.flush()
        return int(self.parent.stdout.readline())


@cache
def shared() -> Runners:
    """One parent for all tests of this process: it takes seconds to start."""
    made = Runners(Path(tempfile.mkdtemp(prefix="runners-")))
    atexit.register(made.close)
    return made


# What a first compilation imports, which takes seconds: a child finds it.
_IMPORTED = ("functorch.compile", "torch._dynamo.testing", "torch._inductor.lowering", "triton.language")


def serve() -> None:
    """The parent. An order may name a ``call``, made instead of a run; ``operator`` makes the child compute first."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _child(order: Mapping[str, Any]) -> None:
    code = 1
    try:
        if order.get("memory_bytes"):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_DATA, (order["memory_bytes"], order["memory_bytes"]))
        os.environ.update(environment_of(order["device"]))
        if order.get("operator"):
            torch.ones(3).exp()
        if "call" in order:
            module, _, name = order["call"].partition(":")
            getattr(importlib.import_module(module), name)(order)
        else:
            run.run({"folder": order["folder"]})
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)
