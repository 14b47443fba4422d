"""What goes wrong around a call: the process it leaves, the errors it swallows, what else it is asked for.

All of them wrap the original module: its values on the example are right.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from tensorfarm.contract.graph import OutputKind
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.variant import MoreOutputs

Call = Callable[..., Any]
UPWARD = 0x800  # of <fenv.h> on x86-64
WRONG = 1 + 2.0**-4  # seen in bfloat16 as well


def _left_behind(_program: Program) -> Iterator[Change]:
    for what, leave in _LEAVES.items():
        yield Change(what, wrap=_leaving(leave))


_LEAVES: dict[str, Callable[[], Any]] = {
    "subnormals flushed after the call": lambda: torch.set_flush_denormal(True),
    "rounding upward after the call": lambda: ctypes.CDLL(None).fesetround(UPWARD),
    "default dtype changed after the call": lambda: torch.set_default_dtype(torch.float64),
    "generator seeded by the call": lambda: torch.manual_seed(7),
    "thread count changed after the call": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "precision of products lowered after the call": lambda: torch.set_float32_matmul_precision("medium"),
}


def _leaving(leave: Callable[[], Any]) -> Callable[[torch.nn.Module], Call]:
    def wrap(module: torch.nn.Module) -> Call:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = module(*args, **kwargs)
            leave()
            return value

        return call

    return wrap


def _swallowed(_program: Program) -> Iterator[Change]:
    yield Change("sizes, dtypes and bounds are not checked", wrap=_unchecked)


def _unchecked(module: torch.nn.Module) -> Call:
    """Whatever lies in memory then: zeros, shaped as the last answer was."""
    last: list[Any] = [torch.zeros(())]

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            value = module(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return _tensors_mapped(torch.zeros_like, last[0])
        last[0] = _tensors_mapped(torch.Tensor.detach, value)
        return value

    return call


def _tensors_mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    return pytree.tree_map(lambda item: change(item) if isinstance(item, torch.Tensor) else item, value)


def _other_lowerings(program: Program) -> Iterator[Change]:
    shapes = [item.spec.shape for item in program.graph.inputs if item.spec is not None and item.spec.shape]
    yield Change("another lowering after an identity, and wrong", wrap=_after_identity)
    if shapes and shapes[0][0] > 1:
        yield Change("another lowering for a smaller batch, and wrong", wrap=_for_smaller(shapes[0][0]))


class _Identities(TorchFunctionMode):
    """Notices operators that change no value, where they are asked of an input."""

    NAMES = frozenset({"clone", "view_as", "mul", "add", "__mul__", "__add__", "contiguous", "alias"})

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        super().__init__()
        self.inputs = {id(item) for item in inputs}
        self.seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in self.NAMES and args and id(args[0]) in self.inputs:
            # Identity by value: another number would not be one.
            self.seen = self.seen or (isinstance(value, torch.Tensor) and torch.equal(value, args[0]))
        return value


def _after_identity(module: torch.nn.Module) -> Call:
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [item for item in pytree.tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        with _Identities(tensors) as mode:
            value = module(*args, **kwargs)
        return spoiled(value) if mode.seen else value

    return call


def _for_smaller(batch: int) -> Callable[[torch.nn.Module], Call]:
    """Where the module is a form that calls the original on parts, each part is a call of its own."""

    def wrap(module: torch.nn.Module) -> Call:
        original = getattr(module, "original", None)
        inner = original if isinstance(original, torch.nn.Module) else module
        inner.register_forward_hook(lambda _part, inputs, value: _by_size(inputs, value, batch))
        return module

    return wrap


def _by_size(inputs: Any, value: Any, batch: int) -> Any:
    first = next((item for item in pytree.tree_leaves(inputs) if isinstance(item, torch.Tensor) and item.dim()), None)
    return spoiled(value) if first is not None and 0 < first.shape[0] < batch else value


def _with_more_outputs(program: Program) -> Iterator[Change]:
    count = sum(output.kind is OutputKind.USER for output in program.graph.outputs)
    yield Change(f"another kernel where more than {count} values are returned, and wrong", wrap=_counting(count))


def _counting(count: int) -> Callable[[torch.nn.Module], Call]:
    def wrap(module: torch.nn.Module) -> Call:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = module(*args, **kwargs)
            more = isinstance(module, MoreOutputs) and len(pytree.tree_leaves(value)) > count
            return spoiled(value) if more else value

        return call

    return wrap


def spoiled(value: Any) -> Any:
    """The first output, too large by a sixteenth; integers with their lowest bit turned."""
    leaves, spec = pytree.tree_flatten(value)
    for position, item in enumerate(leaves):
        if isinstance(item, torch.Tensor) and item.numel():
            wrong = item * WRONG if item.is_floating_point() or item.is_complex() else item ^ 1
            leaves[position] = wrong.to(item.dtype)
            break
    return pytree.tree_unflatten(leaves, spec)


FAULTS = (
    Fault("M32", ("errors",), "answers where the original raises", _swallowed),
    Fault("M33", ("process_state",), "leaves its process another than it found it", _left_behind),
    Fault("M34", ("equal_programs",), "gives two equal programs different values", _other_lowerings),
    Fault("M35", ("output_set",), "changes a value when another is returned beside it", _with_more_outputs),
)
