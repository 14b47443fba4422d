"""Triton kernels of one product, with launchers. A file of its own: the runner imports Triton anew to interpret it."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(left, right, target, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, SHIFT: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    columns, inner = tl.arange(0, N), tl.arange(0, K)
    x = tl.load(left + rows[:, None] * K + inner[None, :])
    y = tl.load(right + inner[:, None] * N + columns[None, :])
    tl.store(
        target + rows[:, None] * N + columns[None, :],
        tl.dot(x, y, input_precision=PRECISION, out_dtype=tl.float32) + SHIFT,
    )


def _launch(x: torch.Tensor, y: torch.Tensor, precision: str, shift: float = 0.0) -> torch.Tensor:
    target = torch.empty(x.shape[0], y.shape[1], device=x.device)
    kernel[(x.shape[0] // 16,)](x, y, target, y.shape[1], x.shape[1], precision, shift)
    return target


def right(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _launch(x, y, "ieee")


def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _launch(x, y, "ieee", 1e-3)


def truncated_natively(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Triton's default, which the interpreter knows nothing of."""
    return _launch(x, y, "tf32")
