"""Numbers that a program reads or makes by their bits, where all numbers are float64.

``x.view(torch.int32)`` of a float32 is asked of a float64 tensor under the oracle's modes, which has twice the bits and
others. The dtype that was meant is told by the integer's size, or by the dtype asked for. Invariant: where it is not
told, or memory is written to that a copy stands for, the run ends with the reason, and no value comes of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

# Of 16 bits there are two formats; 64 may be two float32.
_OF_SIZE_BYTES = {4: torch.float32}


def reads_bits(func: Any) -> bool:
    """Whether it is ``aten::view.dtype``."""
    return func._schema.name == "aten::view" and func._schema.overload_name == "dtype"


class Bits:
    """What was read by its bits under one mode. ``viewed`` gives copies, which know nothing of later writes."""

    def __init__(self) -> None:
        self._apart: list[torch.Tensor] = []

    def viewed(self, func: Any, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
        """None where numbers stay numbers, or integers integers: that is a view as any other."""
        if _number(value.dtype) == _number(dtype):
            return None
        if _number(dtype):
            made = func(value, dtype).to(torch.complex128 if dtype.is_complex else torch.float64)
        elif dtype.itemsize in _OF_SIZE_BYTES:
            made = func(value.to(_OF_SIZE_BYTES[dtype.itemsize]), dtype)
        else:
            raise RuntimeError(f"numbers are read by their bits as {dtype}, which tells no dtype of theirs")
        self._apart += [value, made]
        return made

    def refuse_written(self, written: Iterable[Any]) -> None:
        """Raise where one of them shares memory with what a copy stands for."""
        places = {value.untyped_storage().data_ptr() for value in self._apart}
        for value in written if places else ():
            if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in places:
                raise RuntimeError("numbers are written to that are read by their bits")


def _number(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
