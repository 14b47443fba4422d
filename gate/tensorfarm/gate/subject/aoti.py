"""Runner of an AOTInductor package: native code through torch's own loader, which brings no compiler along.

Invariant: inputs that the code was not built for are refused, not read past their end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.contract.structure import structure_text
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.subject import load as loading
from tensorfarm.gate.subject.specialised import refuse_another_device, tensors_for, tensors_in_order, tensors_of_graph

PACKAGE = "model.pt2"
# Read once, by the first package that runs: shapes, strides, dtypes and devices are then compared with what was built.
_CHECK_INPUTS = "AOTI_RUNTIME_CHECK_INPUTS"
# Private to torch, and the one way to a package that imports none of Inductor.
_native: Any = torch._C._aoti  # pyright: ignore
_BUILT_FOR = "AOTI_DEVICE_KEY"
_MODEL, _RUNNERS, _CURRENT_DEVICE = "model", 1, -1


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> loading.Loaded:
    """``subject``: ``path`` of a package, whose own weights are judged with it; they cannot be looked at."""
    package = _Package(Path(subject["path"]), device)
    return loading.Loaded(
        run=lambda leaves: package.call(tensors_in_order(leaves, request.leaves)),
        evidence=package.evidence,
        fresh=lambda: load(subject, request, device),
    )


def load_artifact(artifact: Artifact, device: str) -> loading.Loaded:
    """The package reads the artifact's weights where they lie, but for small ones that it holds in its code."""
    with tempfile.TemporaryDirectory(prefix="tensorfarm-aoti-") as folder:
        artifact.unpack_runtime(Path(folder))
        package = _Package(Path(folder) / artifact.options.get("package", PACKAGE), device)
    weights = {name: value.to(device) for name, value in artifact.weights.items()}
    package.adopt({weight.target: weights[name] for name, weight in artifact.graph.weights.items()})
    return loading.Loaded(
        run=lambda leaves: package.call(tensors_for(artifact.graph, leaves)),
        evidence=package.evidence,
        fresh=lambda: loading.load_artifact(artifact.path, artifact.sha256, artifact.candidate_id, device),
        tensors=lambda: loading.Tensors({}, tensors_of_graph(artifact.graph, weights).buffers),
    )


class _Package:
    """One loaded package. The loader has unpacked it for itself: its file may go."""

    def __init__(self, path: Path, device: str) -> None:
        os.environ[_CHECK_INPUTS] = "1"
        try:
            self.loader = _native.AOTIModelPackageLoader(str(path), _MODEL, False, _RUNNERS, _CURRENT_DEVICE)
        except RuntimeError as error:
            raise Refusal(
                f"{path.name} is not readable as an AOTInductor package: {one_line(error)}",
                limit="what torch._inductor.aoti_compile_and_package wrote, for this machine",
                next_step="build it again with this torch",
            ) from None
        refuse_another_device(self.loader.get_metadata()[_BUILT_FOR], device)
        self.structure = structure_text(pytree.treespec_loads(self.loader.get_call_spec()[1]))
        self.adopted: dict[str, torch.Tensor] = {}

    def adopt(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Compute with these tensors, as they are at each call."""
        taken = self.loader.get_constant_fqns()
        self.adopted = {name: value for name, value in weights.items() if name in taken}
        if self.adopted:
            self.loader.load_constants(self.adopted, False, False, True)

    def call(self, tensors: list[torch.Tensor]) -> Returned:
        return Returned(self.loader.boxed_run([value.detach() for value in tensors]), self.structure)

    def evidence(self) -> dict[str, Any]:
        return {"runtime": "aoti", **self.loader.get_metadata(), "adopted": sorted(self.adopted)}
