"""Arithmetic of two dtypes that is done in a third: the rules differ for numbers, 0-dimensional and other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault

ARITHMETIC = frozenset(
    f"{left}{name}{right}"
    for name in ("add", "sub", "mul", "div", "truediv")
    for left, right in (("", ""), ("__", "__"), ("__r", "__"))
) | {"true_divide"}
HALF = (torch.float16, torch.bfloat16)
Rule = Callable[[Any, Any, torch.dtype], torch.dtype]


def _promotions(program: Program) -> Iterator[Change]:
    names = {node.op.split(".")[1] for node in program.graph.nodes.values() if "." in node.op}
    if names & {"add", "sub", "mul", "div"}:
        for what, rule in _RULES.items():
            yield Change(what, wrap=_promoting(rule))


def _all_dimensioned(left: Any, right: Any, dtype: torch.dtype) -> torch.dtype:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.promote_types(left.dtype, right.dtype)
    return dtype


def _numbers_are_float32(left: Any, right: Any, dtype: torch.dtype) -> torch.dtype:
    number = next((item for item in (left, right) if isinstance(item, int | float)), None)
    return torch.float32 if number is not None and dtype in HALF else dtype


def _integers_with_half(left: Any, right: Any, dtype: torch.dtype) -> torch.dtype:
    dtypes = [item.dtype for item in (left, right) if isinstance(item, torch.Tensor)]
    integer = any(not item.is_floating_point for item in dtypes)
    return torch.float32 if integer and dtype in HALF else dtype


def _two_halves(left: Any, right: Any, dtype: torch.dtype) -> torch.dtype:
    dtypes = {item.dtype for item in (left, right) if isinstance(item, torch.Tensor)}
    return torch.float16 if dtypes == set(HALF) else dtype


def _never_float64(_left: Any, _right: Any, dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype is torch.float64 else dtype


_RULES: dict[str, Rule] = {
    "a 0-dimensional operand counts as one with dimensions": _all_dimensioned,
    "a number makes half precision float32": _numbers_are_float32,
    "an integer makes half precision float32": _integers_with_half,
    "float16 with bfloat16 stays half precision": _two_halves,
    "float64 becomes float32": _never_float64,
}


class _Promoting(TorchFunctionMode):
    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in ARITHMETIC or len(args) < 2 or not isinstance(value, torch.Tensor):
            return value
        wanted = self.rule(args[0], args[1], value.dtype)
        return value if wanted is value.dtype else value.to(wanted)


def _promoting(rule: Rule) -> Callable[[torch.nn.Module], Callable[..., Any]]:
    def wrap(module: torch.nn.Module) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with _Promoting(rule):
                return module(*args, **kwargs)

        return call

    return wrap


FAULTS = (Fault("M40", ("promotion",), "promotes mixed dtypes wrongly", _promotions),)
