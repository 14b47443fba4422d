"""Runner of generated Triton kernels: a source file with a launcher, interpreted where there is no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.gate.subject import load as loading
from tensorfarm.gate.subject import source
from tensorfarm.gate.subject.scratch import new_folder
from tensorfarm.gate.subject.specialised import tensors_for, tensors_in_order, tensors_of_graph

KERNELS, LAUNCHER = "kernels.py", "launch"
_INTERPRET = "TRITON_INTERPRET"


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> loading.Loaded:
    """``subject``: ``source`` (``path.py:launcher``), ``python_path``. The launcher takes the tensors in order."""
    interpreted = _interpreted(device)
    launcher = source.named(subject["source"], subject.get("python_path", ()))
    return loading.Loaded(
        run=lambda leaves: loading.returned(launcher(*tensors_in_order(leaves, request.leaves))),
        evidence=lambda: {"runtime": "triton", "interpreted": interpreted},
        fresh=lambda: load(subject, request, device),
    )


def load_artifact(artifact: Artifact, device: str) -> loading.Loaded:
    """The launcher takes the graph's tensor inputs, then its weights, and returns the user outputs as a tuple."""
    interpreted = _interpreted(device)
    # Kept for as long as the session: a kernel is read from its source again when it is first launched.
    folder = new_folder("triton")
    artifact.unpack_runtime(folder)
    kernels = folder / artifact.options.get("kernels", KERNELS)
    launcher = source.named(f"{kernels}:{artifact.options.get('launcher', LAUNCHER)}")
    return _launched(artifact, launcher, {"runtime": "triton", "interpreted": interpreted}, device)


def _launched(artifact: Artifact, launcher: Callable[..., Any], told: dict[str, Any], device: str) -> loading.Loaded:
    weights = {name: artifact.weights[name].to(device) for name in artifact.graph.weights}
    return loading.Loaded(
        run=lambda leaves: loading.returned(tuple(launcher(*tensors_for(artifact.graph, leaves), *weights.values()))),
        evidence=lambda: told,
        fresh=lambda: _launched(open_artifact(artifact.path, artifact.sha256), launcher, told, device),
        tensors=lambda: tensors_of_graph(artifact.graph, weights),
    )


def _interpreted(device: str) -> bool:
    """Set Triton to its interpreter, or to a GPU where one was asked for, whatever the environment said.

    Triton's own library of kernels is decorated while it is imported, so one that was imported for compiling cannot
    interpret, nor the other way round: it is imported again. Its native part stays.
    """
    interpreted = device != "cuda"
    if (os.environ.get(_INTERPRET) == "1") is not interpreted:
        os.environ[_INTERPRET] = "1" if interpreted else "0"
        for name in [name for name in sys.modules if name == "triton" or name.startswith("triton.")]:
            if not name.startswith("triton._C"):
                del sys.modules[name]
    return interpreted
