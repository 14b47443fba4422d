"""What one call gave, whoever was called: the original, the oracle or a subject. Tensors by key, the rest as told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from tensorfarm.contract.exchange import CallReport


@dataclass(frozen=True)
class Observation:
    """Keys of ``tensors``: ``output:POSITION``, ``gradient:NAME`` (absent where there is none), ``second:NAME`` (a
    gradient of gradients), ``tangent:POSITION``, ``input:NAME`` and ``buffer:NAME`` as they are after the call.

    ``held`` are outputs and gradients themselves, for whoever looks at them after the trial's last call."""

    tensors: Mapping[str, torch.Tensor]
    report: CallReport
    held: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor], repr=False, compare=False)

    def named(self, kind: str) -> dict[str, torch.Tensor]:
        """Tensors of one kind, by what follows the colon."""
        start = f"{kind}:"
        return {key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)}

    def output_count(self) -> int:
        return len(self.named("output").keys() | self.report.literals.keys())


def spoken(key: str) -> str:
    """``gradient encoder.weight`` of ``gradient:encoder.weight``."""
    return key.replace(":", " ", 1)
