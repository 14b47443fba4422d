"""The same question by names: original, compiled program and judge each in a process of its own.

Run it: ``python examples/certify_by_name.py``. A crash of compiled code is then a finding, and nothing that it patches
reaches the judge. The factories are what ``farm verify`` and a sweep file name, too.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tensorfarm.gate import certify
from tensorfarm.gate.readable import readable

HERE = Path(__file__)


class Smoothed(nn.Module):
    """A running mean in a buffer: what is written between calls is judged as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


def smoothed() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A factory: the module and its example inputs."""
    return Smoothed(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(1)),)


def forgetful(x: torch.Tensor) -> torch.Tensor:
    """Somebody's kernel. Right when it is first called, and it keeps no mean."""
    return x - 0.1 * x.mean(0)


def main() -> None:
    original = f"{HERE}:smoothed"
    compiled = {"kind": "compiled", "source": original, "backend": "aot_eager"}
    for subject in (compiled, f"{HERE}:forgetful"):
        print(readable(certify(original, subject, level="standard"), most=2))
        print()


if __name__ == "__main__":
    main()
