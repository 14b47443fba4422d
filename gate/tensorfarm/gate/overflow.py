"""Which sums overflow in one order of their terms and not in another: nothing special is required of these.

Adding 3e38, 3e38 and -5e38 gives an infinity in one order and 1e38 in another; an infinity of each sign gives NaN. All
partial sums lie between the sum of the negative terms and that of the positive ones, and both are had from the sum and
the sum of magnitudes. Invariant: a sum is left alone where no order overflows, and where every order gives the same
infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tensorfarm.gate.rounding import CONTRACTIONS, name_of

# Sums of products of operands: with magnitudes as operands they give the sum of the magnitudes of their terms.
_SUMS = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d avg_pool2d avg_pool2d_backward avg_pool3d col2im
convolution convolution_backward cumsum embedding_dense_backward index_add mean scatter_add sum trace
"""
_LINEAR = CONTRACTIONS | frozenset(_SUMS.split())
# Of the sum of magnitudes: what float64 may have lost of the smaller of the two sums.
_UNSEEN = 1e-12
# Of the largest number, on either side of it: what rounding may add to a sum that is near.
_NEAR = 1e-2

Call = Callable[[Any], Any]


def poison(func: Any, args: Sequence[Any], call: Call, result: Any, largest: float) -> None:
    """Put NaN where the order decides whether a sum in a dtype that ends at ``largest`` overflows.

    ``call`` gives the operator's result for other operands than ``args``, of which ``result`` came.
    """
    if name_of(func) not in _LINEAR or not _may_overflow(args, largest):
        return
    scale = _divisor(func, args)
    magnitudes = call([value.abs() if _is_real(value) else value for value in args])
    pairs = zip(_listed(result), _listed(magnitudes), strict=True)
    for total, size in pairs:
        if _is_real(total) and total.shape == size.shape:
            total.masked_fill_(_hangs_on_order(total, size, scale, largest), math.nan)


def _hangs_on_order(total: torch.Tensor, size: torch.Tensor, scale: float, largest: float) -> torch.Tensor:
    positive, negative = (size + total) * (scale / 2), (size - total) * (scale / 2)
    least, most = torch.minimum(positive, negative), torch.maximum(positive, negative)
    least += most * _UNSEEN
    overflows_always = (total.abs() > largest * (1 + _NEAR)) & (least < largest * (1 - _NEAR))
    return (most > largest * (1 - _NEAR)) & ~overflows_always


def _may_overflow(args: Sequence[Any], largest: float) -> bool:
    """A bound that is cheap: as many terms as the largest operand has elements, each as large as can be."""
    operands = [value for value in args if _is_real(value) and value.numel()]
    bound = math.prod(max(float(value.abs().amax()), 1.0) for value in operands)
    return not bound * max((value.numel() for value in operands), default=0) < largest * (1 - _NEAR)


def _divisor(func: Any, args: Sequence[Any]) -> float:
    """What a mean divides its sum by, at the end or before."""
    if name_of(func) != "mean":
        return 1.0
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return float(math.prod(args[0].shape[dim] for dim in dims) if dims else args[0].numel())


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)
