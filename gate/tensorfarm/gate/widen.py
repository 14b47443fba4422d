"""Everything in float64: a dispatch mode that widens each floating cast, factory and stray operand of the reference.

``module.double()`` alone leaves float32 where a model casts (``.float()``), makes masks or keeps plain tensors.
Invariant: no operator under the mode computes in a narrower floating dtype. Integers and booleans stay what they are.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WIDE: dict[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_METADATA_ASSERTION = "aten::_assert_tensor_metadata"


def widened(value: torch.Tensor) -> torch.Tensor:
    """The tensor in its wide dtype, with its strides."""
    return value.to(_WIDE.get(value.dtype, value.dtype))


class Widened(TorchDispatchMode):
    """Runs every operator in float64. What a mutable operator writes to keeps its dtype."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.wide(func, args, kwargs or {})

    def wide(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func._schema.name == _METADATA_ASSERTION:
            return None
        keep = func._schema.is_mutable
        if kwargs:
            kwargs = {key: _wide_argument(value, keep) for key, value in kwargs.items()}
        return func(*[_wide_argument(value, keep) for value in args], **kwargs)


def _wide_argument(value: Any, keep: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return value if keep or value.dtype not in _WIDE else value.to(_WIDE[value.dtype])
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, (list, tuple)):
        return [_wide_argument(item, keep) for item in value]
    return value


@contextmanager
def wide_defaults() -> Generator[None]:
    """Factories without a dtype make float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
