"""The same program in another form, for subjects that are compiled from a module: reference, oracle and subject alike.

Each form is a module around the original, so that what a compiler fuses, folds or keeps changes and what is computed
does not. Invariant: a form uses no randomness and holds no parameters of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from tensorfarm.contract.refusal import Refusal

IDENTITY, SPLIT_BATCH, MORE_OUTPUTS = "identity", "split_batch", "more_outputs"
# Enough to change what is fused; every intermediate of a large model would only cost.
_MOST_OUTPUTS = 8


def varied(module: torch.nn.Module, variant: str) -> torch.nn.Module:
    """The module in another form. Refuses an unknown one."""
    if variant not in VARIANTS:
        raise Refusal(f"variant {variant!r} is unknown", limit=", ".join(VARIANTS), next_step="correct the trial")
    return VARIANTS[variant](module)


class Identity(torch.nn.Module):
    """Every input and every output passes through operations that change no bit: a copy, and its sign turned twice.

    A product with one would change none either, but it is an operation that rounds: with its noise no two values that
    are equal stay so, and gradients of extrema at ties could not be decided.
    """

    def __init__(self, original: torch.nn.Module) -> None:
        super().__init__()
        self.original = original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _mapped(_same, self.original(*_mapped(_same, args), **_mapped(_same, kwargs)))


class SplitBatch(torch.nn.Module):
    """The original on each half of the batch; outputs that follow the batch joined again, others side by side.

    The batch is the first axis of every tensor that is as long there as the first tensor that has axes.
    """

    def __init__(self, original: torch.nn.Module) -> None:
        super().__init__()
        self.original = original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        length = _length((args, kwargs))
        if length < 2:
            return self.original(*args, **kwargs)
        middle = length // 2

        def half(start: int, count: int) -> Any:
            def part(value: torch.Tensor) -> torch.Tensor:
                return value.narrow(0, start, count) if value.dim() and value.shape[0] == length else value

            return self.original(*_mapped(part, args), **_mapped(part, kwargs))

        return _joined(half(0, middle), half(middle, length - middle), middle, length - middle)


class MoreOutputs(torch.nn.Module):
    """What the innermost parts give becomes output too, after the original's own outputs."""

    def __init__(self, original: torch.nn.Module) -> None:
        super().__init__()
        self.original = original
        self._given: list[torch.Tensor] = []
        innermost = [part for part in original.modules() if part is not original and not list(part.children())]
        for part in innermost[:: max(1, -(-len(innermost) // _MOST_OUTPUTS))]:
            part.register_forward_hook(self._keep)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._given = []
        own = self.original(*args, **kwargs)
        given, self._given = self._given, []
        return own, given

    def _keep(self, _part: torch.nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            self._given.append(output)


VARIANTS: Mapping[str, Callable[[torch.nn.Module], torch.nn.Module]] = {
    IDENTITY: Identity,
    SPLIT_BATCH: SplitBatch,
    MORE_OUTPUTS: MoreOutputs,
}


def _same(value: torch.Tensor) -> torch.Tensor:
    copied = value.clone()
    return copied.neg().neg() if value.is_floating_point() or value.is_complex() else copied


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Plain recursion: what a compiler traces of it is the operations alone."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(change, item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, tuple) and hasattr(cast("Any", value), "_fields"):
        return type(cast("Any", value))(*[_mapped(change, item) for item in cast("Sequence[Any]", value)])
    if type(cast("Any", value)) in (list, tuple):
        return type(cast("Any", value))([_mapped(change, item) for item in cast("Sequence[Any]", value)])
    return value


def _length(value: Any) -> int:
    """Of the first axis of the first tensor that has one; 0 where none has."""
    if isinstance(value, torch.Tensor):
        return value.shape[0] if value.dim() else 0
    if isinstance(value, dict):
        value = list(cast("dict[Any, Any]", value).values())
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            found = _length(item)
            if found:
                return found
    return 0


def _joined(first: Any, second: Any, rows: int, others: int) -> Any:
    if isinstance(first, torch.Tensor):
        if first.dim() and first.shape[0] == rows and second.shape[0] == others:
            return torch.cat([first, second])
        return first, second
    if isinstance(first, dict):
        return {key: _joined(item, second[key], rows, others) for key, item in cast("dict[Any, Any]", first).items()}
    if isinstance(first, (list, tuple)):
        pairs = zip(cast("Sequence[Any]", first), second, strict=True)
        return [_joined(item, other, rows, others) for item, other in pairs]
    return first
