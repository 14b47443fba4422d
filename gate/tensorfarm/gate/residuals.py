"""The oracle's float64 tensors in fewer bytes, which every verdict on a program reads and proves.

An exact value is kept as what the original's lacks to it, a spread rounded up. Invariant: what comes back is off by at
most 2**-23 of the original's own error, and is a number of the original's dtype where it was one; no spread is narrower
than it was, or wider by more than a float32's roundoff. What cannot be kept so is kept whole.
"""

from __future__ import annotations

import torch

_CLOSE = 2.0**-23
_WIDER = 1 + 2.0**-22
_AT_MOST_BYTES = 4


def residual(eager: torch.Tensor, exact: torch.Tensor) -> torch.Tensor | None:
    """Float32, shaped as both; None where ``restored`` would not give ``exact`` back."""
    if not _is_plain(eager) or exact.dtype != torch.float64 or exact.shape != eager.shape:
        return None
    if not (exact.is_contiguous() and eager.is_contiguous()):
        return None
    error = exact - eager
    found = error.float()
    again = restored(eager, found)
    close = bool(((again - exact).abs_() <= error.abs_().mul_(_CLOSE)).all())
    rounded, rounded_again = exact.to(eager.dtype), again.to(eager.dtype)
    alike = close and torch.equal(rounded, rounded_again)
    return found if alike and torch.equal(rounded == exact, rounded_again == again) else None


def restored(eager: torch.Tensor, lacks: torch.Tensor) -> torch.Tensor:
    """The exact values, float64."""
    return eager.detach().double().add_(lacks)


def rounded_up(eager: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """``sigma`` as float32 and nowhere less; as it is where that would be another limit."""
    if not (_is_plain(eager) and sigma.dtype == torch.float64):
        return sigma
    found = sigma.float()
    found = torch.where(found < sigma, torch.nextafter(found, torch.full_like(found, torch.inf)), found)
    return found if bool(((found.double() / _WIDER <= sigma) & (found.isinf() == sigma.isinf())).all()) else sigma


def _is_plain(eager: torch.Tensor) -> bool:
    return eager.is_floating_point() and eager.element_size() <= _AT_MOST_BYTES
