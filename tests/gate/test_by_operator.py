"""The runner that calls a graph operator by operator computes what the generated code does, and holds no more."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import gate_programs
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.contract.capture import capture
from tensorfarm.contract.executable import executable
from tensorfarm.contract.program import Program
from tensorfarm.gate.subject import captured
from tensorfarm.gate.subject.by_operator import ByOperator


class _Counter(torch.nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.count
        self.count.add_(1)
        x.mul_(2)
        return torch.cat(torch.split(y * self.count, 2)[::-1])


def counter() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _Counter(), (torch.arange(4.0),)


class _LongChain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = torch.sin(x)
        return x


def long_chain() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return _LongChain(), (torch.arange(4.0),)


def _program(name: str) -> Program:
    place = __name__ if name in globals() else gate_programs.__name__
    return capture(f"{place}:{name}")


def _weights(program: Program) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in program.weights.items()}


@pytest.mark.parametrize("name", ["mlp", "attention", "batch_norm", "counter"])
def test_it_computes_and_writes_what_generated_code_does(name: str) -> None:
    program = _program(name)
    module, call = executable(program.graph, _weights(program)), ByOperator(program.graph, _weights(program))
    for _ in range(2):
        left, right = ([value.clone() for value in program.inputs.values()] for _ in range(2))
        for one, other in zip(module(*left), call(*right), strict=True):
            assert torch.equal(one, other)
            assert one.requires_grad == other.requires_grad
        assert all(torch.equal(one, other) for one, other in zip(left, right, strict=True))
    states = dict(module.state_dict(keep_vars=True))
    assert all(torch.equal(value, states[key]) for key, value in call.places.items())


def test_a_value_goes_when_it_is_last_used() -> None:
    """Nothing else would: what a chain of operators made on the way stays until the call ends."""
    program = _program("long_chain")
    most = 0

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal most
            result = func(*args, **(kwargs or {}))
            made.add(result)
            most = max(most, len(made))
            return result

    made = WeakSet[torch.Tensor]()
    with torch.no_grad(), Counted():
        ByOperator(program.graph, program.weights)(*program.inputs.values())
    assert most <= 3


def test_a_fresh_one_starts_again_and_leaves_what_was_given() -> None:
    program = _program("counter")
    loaded = captured.of_graph(program.graph, program.weights, program.returns)
    x = program.inputs["x"]
    first = loaded.call({"x": x.clone()}).leaves[0]
    second = loaded.call({"x": x.clone()}).leaves[0]
    kept = loaded.buffers["count"].clone()
    held = loaded.buffers["count"].detach()
    again = loaded.fresh().call({"x": x.clone()}).leaves[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert torch.equal(held, kept), "what was looked at earlier is written to"
    assert torch.equal(next(iter(program.weights.values())), torch.ones(4)), "the program's own weights are written to"
