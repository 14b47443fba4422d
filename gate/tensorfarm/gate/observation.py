"""What a subject reported, read by the judge: names checked, nothing believed that the files do not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import OUTPUTS, SubjectReport
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.tensors import read_tensors


@dataclass(frozen=True)
class Observation:
    """Outputs by position; gradients, inputs and buffers by the name that the expectation uses."""

    outputs: Mapping[int, torch.Tensor]
    literals: Mapping[int, Any] = field(default_factory=dict[int, Any])
    requires_grad: Mapping[int, bool] = field(default_factory=dict[int, bool])
    gradients: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])

    def output_count(self) -> int:
        return len(self.outputs.keys() | self.literals.keys())


def observed(folder: Path, report: SubjectReport, lowered: Graph, captured: Graph) -> Observation:
    """Read ``outputs.tensors``. Weights are matched by qualified name: a compiler may rename them in its graph."""
    by_kind: dict[str, dict[str, torch.Tensor]] = {"output": {}, "gradient": {}, "input": {}, "buffer": {}}
    for key, tensor in read_tensors(folder / OUTPUTS).items():
        kind, _, name = key.partition(":")
        if kind in by_kind:
            by_kind[kind][name] = tensor
    targets = {weight.name: weight.target for weight in lowered.weights.values()}
    captured_names = {weight.target: weight.name for weight in captured.weights.values()}
    return Observation(
        outputs={int(name): tensor for name, tensor in by_kind["output"].items()},
        literals={int(name): value for name, value in report.literals.items()},
        requires_grad={int(name): bool(value) for name, value in report.requires_grad.items()},
        gradients={
            captured_names.get(targets.get(name, name), name): tensor for name, tensor in by_kind["gradient"].items()
        },
        inputs=by_kind["input"],
        buffers={targets.get(name, name): tensor for name, tensor in by_kind["buffer"].items()},
    )
