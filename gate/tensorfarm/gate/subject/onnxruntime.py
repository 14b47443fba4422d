"""Runner of an ONNX file: a session of ONNX Runtime on the CPU, with the thread count of torch in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.subject import load as loading
from tensorfarm.gate.subject.specialised import refuse_another_device, tensors_for, tensors_in_order

try:
    import onnxruntime
except ImportError as error:
    raise Refusal(f"ONNX Runtime is not here: {one_line(error)}", next_step='run "pip install onnxruntime"') from None

MODEL = "model.onnx"
_PROVIDERS = ["CPUExecutionProvider"]


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> loading.Loaded:
    """``subject``: ``path`` of a file. Its weights are judged with it; they cannot be looked at."""
    refuse_another_device("cpu", device)
    session = _Session(Path(subject["path"]))
    return loading.Loaded(
        run=lambda leaves: session.call(leaves, tensors_in_order(leaves, request.leaves)),
        evidence=session.evidence,
        fresh=lambda: load(subject, request, device),
    )


def load_artifact(artifact: Artifact, device: str) -> loading.Loaded:
    refuse_another_device("cpu", device)
    with tempfile.TemporaryDirectory(prefix="tensorfarm-onnx-") as folder:
        artifact.unpack_runtime(Path(folder))
        session = _Session(Path(folder) / artifact.options.get("model", MODEL))
    return loading.Loaded(
        run=lambda leaves: session.call(leaves, tensors_for(artifact.graph, leaves)),
        evidence=session.evidence,
        fresh=lambda: loading.load_artifact(artifact.path, artifact.sha256, artifact.candidate_id, device),
    )


class _Session:
    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=_PROVIDERS)
        except Exception as error:
            # One class of its own for each status, and none in common.
            raise Refusal(
                f"ONNX Runtime does not load {path.name}: {one_line(error)}",
                limit=f"an ONNX file that onnxruntime {onnxruntime.__version__} can run on a CPU",
                next_step="export it again, or for operators that it has",
            ) from None
        self.takes: list[str] = [item.name for item in self.session.get_inputs()]
        self.gives: list[str] = [item.name for item in self.session.get_outputs()]

    def call(self, leaves: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> Returned:
        """Inputs go by position; by name where the file takes fewer, as an exporter drops what nothing reads."""
        if len(tensors) == len(self.takes):
            given = dict(zip(self.takes, tensors, strict=True))
        else:
            given = {name: leaves[name] for name in self.takes if isinstance(leaves.get(name), torch.Tensor)}
        if given.keys() != set(self.takes):
            raise Refusal(
                f"the ONNX file takes {', '.join(self.takes) or 'nothing'}",
                limit=f"it was given {len(tensors)} tensors of {', '.join(leaves)}",
                next_step="export it for these inputs",
            )
        found = self.session.run_with_ort_values(self.gives, {name: _given(value) for name, value in given.items()})
        return Returned([torch.from_dlpack(value).clone() for value in found], "")

    def evidence(self) -> dict[str, Any]:
        return {
            "runtime": "onnxruntime",
            "version": onnxruntime.__version__,
            "providers": list(self.session.get_providers()),
        }


def _given(value: torch.Tensor) -> Any:
    dense = value.detach().resolve_conj().resolve_neg().contiguous()
    return onnxruntime.OrtValue.from_dlpack(dense)
