"""Everything in float64: a dispatch mode that widens each floating cast, factory and stray operand of the reference.

``module.double()`` alone leaves float32 where a model casts (``.float()``), makes masks or keeps plain tensors.
Invariant: no operator under the mode computes in a narrower floating dtype. Integers and booleans stay what they are.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.bits import Bits, reads_bits
from tensorfarm.gate.rounding import is_step, name_of

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
    """Runs every operator in float64. What a mutable operator writes to keeps its dtype.

    ``jumps`` says whether a floating value came upon an operator with steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jumps = False
        self._bits = Bits()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under the mode, and the wrapper that guards against it loads a compiler and costs."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.wide(func, args, kwargs or {})

    def wide(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        traits = _traits(func)
        if traits.is_assertion:
            return None
        if not self.jumps and (traits.has_steps or (traits.casts and _is_discrete(kwargs.get("dtype")))):
            self.jumps = any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in args)
        if traits.writes:
            self._bits.refuse_written((*args, *kwargs.values()))
        read = self._bits.viewed(func, *args) if traits.reads_bits else None
        if read is not None:
            self.jumps = True
            return read
        if kwargs:
            kwargs = {key: _wide_argument(value, traits.writes) for key, value in kwargs.items()}
        return func(*[_wide_argument(value, traits.writes) for value in args], **kwargs)


@dataclass(frozen=True)
class _Traits:
    """What is asked of each call of an overload; its schema is slow to read."""

    is_assertion: bool
    writes: bool
    has_steps: bool
    casts: bool
    reads_bits: bool


@cache
def _traits(func: Any) -> _Traits:
    return _Traits(
        func._schema.name == _METADATA_ASSERTION,
        func._schema.is_mutable,
        is_step(func),
        name_of(func) == "_to_copy",
        reads_bits(func),
    )


def _is_discrete(dtype: torch.dtype | None) -> bool:
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


def _wide_argument(value: Any, keep: bool) -> Any:
    if isinstance(value, torch.Tensor):
        dtype = value.dtype
        return value if keep or dtype is torch.float64 or dtype not in _WIDE else value.to(_WIDE[dtype])
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, (list, tuple)):
        return [_wide_argument(item, keep) for item in value]
    return value


@contextmanager
def default_dtype(dtype: torch.dtype) -> Generator[None]:
    """Factories without a dtype make this one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def wide_defaults() -> AbstractContextManager[None]:
    """Factories without a dtype make float64."""
    return default_dtype(torch.float64)
