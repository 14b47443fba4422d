"""Does ``torch.compile`` keep what this model means? Live objects, judged in this process.

Run it: ``python examples/certify_torch_compile.py``. It certifies a block that Inductor compiled, then the same block
with a "fast" GELU that is off by some 1e-4 and within every usual tolerance.
"""

from __future__ import annotations

import torch
from torch import nn

from tensorfarm.gate import certify
from tensorfarm.gate.readable import readable


class Block(nn.Module):
    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x)), approximate=self.approximate))


def main() -> None:
    torch.manual_seed(0)
    block, x = Block(), torch.randn(4, 16)
    fast = Block(approximate="tanh")
    fast.load_state_dict(block.state_dict())

    print("assert_close:", "agrees" if torch.allclose(block(x), fast(x), rtol=1e-3, atol=1e-3) else "differs")
    for compiled in (torch.compile(block), torch.compile(fast)):
        print()
        print(readable(certify(block, compiled, (x,), level="quick"), most=2))


if __name__ == "__main__":
    main()
