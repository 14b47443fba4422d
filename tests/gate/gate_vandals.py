"""What a subject's process does before it runs: faults of a runtime, and attacks on whoever shares its process.

Each is called in the subject's child alone, and stands for native code that an artifact brings along.
"""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

import tensorfarm.gate.agreement as agreement
import tensorfarm.gate.subject.graph as graph
import tensorfarm.gate.subject.run as subject
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.subject.load import Loaded

Call = Callable[..., tuple[Any, ...]]


def _wrapped(around: Callable[[Any, Call, tuple[torch.Tensor, ...]], Any]) -> None:
    """Make the subject be called through ``around(loaded, call, inputs)``, in every trial."""
    load = subject.load

    def changed(loaded: Loaded) -> Loaded:
        def run(leaves: Mapping[str, Any]) -> Returned:
            names = [name for name, value in leaves.items() if isinstance(value, torch.Tensor)]

            def call(*inputs: torch.Tensor) -> tuple[Any, ...]:
                return tuple(loaded.call({**leaves, **dict(zip(names, inputs, strict=True))}).leaves)

            return Returned(around(loaded, call, tuple(leaves[name] for name in names)), "")

        return replace(loaded, run=run, fresh=lambda: changed(loaded.fresh()))

    subject.load = lambda *arguments: changed(load(*arguments))


def patch_torch() -> None:
    """Everything that a judge in the same process would believe, and flushing of subnormals."""
    torch.allclose = torch.equal = lambda *_arguments, **_options: True
    torch.matmul = torch.add = torch.Tensor.abs = lambda *arguments, **_options: arguments[0] * 0
    torch.Tensor.__le__ = lambda left, _right: torch.ones_like(left, dtype=torch.bool)
    agreement.agreement = lambda *_arguments: None
    torch.set_flush_denormal(True)


def patch_torch_and_lie() -> None:
    """As above, with wrong values."""
    patch_torch()
    _wrapped(lambda _loaded, call, inputs: tuple(_wrong(value) for value in call(*inputs)))


def _wrong(value: torch.Tensor) -> torch.Tensor:
    return value * 1.01 if value.is_floating_point() else value


def segfault() -> None:
    _wrapped(lambda _loaded, _call, _inputs: ctypes.string_at(0))


def exit_early() -> None:
    _wrapped(lambda _loaded, _call, _inputs: ctypes.CDLL(None)._exit(3))


def raise_an_error() -> None:
    def around(_loaded: Any, _call: Call, _inputs: tuple[torch.Tensor, ...]) -> Any:
        raise ValueError("no kernel for this shape")

    _wrapped(around)


def write_junk() -> None:
    subject.write_tensors = lambda path, _tensors: path.write_bytes(b"no tensors")


def write_to_an_input() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        outputs = call(*inputs)
        with torch.no_grad():
            inputs[0][..., -1:].add_(1e-3)
        return outputs

    _wrapped(around)


def forget_the_buffers() -> None:
    def around(loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        before = {name: value.clone() for name, value in loaded.buffers.items()}
        outputs = call(*inputs)
        with torch.no_grad():
            for name, value in loaded.buffers.items():
                value.copy_(before[name])
        return outputs

    _wrapped(around)


def one_nan() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        first, *others = call(*inputs)
        poison = torch.zeros_like(first)
        poison.view(-1)[3] = torch.nan
        return (first + poison, *others)

    _wrapped(around)


def scale_by_a_thousandth_more() -> None:
    _scale(1.001)


def scale_by_a_hundred_thousandth_more() -> None:
    _scale(1.00001)


def _scale(factor: float) -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        first, *others = call(*inputs)
        return (first * factor, *others)

    _wrapped(around)


def scale_last_output() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        *others, last = call(*inputs)
        return (*others, last * 1.00001)

    _wrapped(around)


def hide_the_nans() -> None:
    _wrapped(lambda _loaded, call, inputs: tuple(value.masked_fill(value.isnan(), 0.0) for value in call(*inputs)))


def flip_an_infinity() -> None:
    _wrapped(
        lambda _loaded, call, inputs: tuple(value * -1 if value.isinf().any() else value for value in call(*inputs))
    )


def drop_an_output() -> None:
    _wrapped(lambda _loaded, call, inputs: tuple(call(*inputs))[:-1])


def double_precision() -> None:
    _wrapped(lambda _loaded, call, inputs: tuple(value.double() for value in call(*inputs)))


def other_strides() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        first, *others = call(*inputs)
        return (first.t().contiguous().t(), *others)

    _wrapped(around)


def broadcast_row() -> None:
    """The shape that a careless comparison would broadcast."""
    _wrapped(lambda _loaded, call, inputs: tuple(value[:1] for value in call(*inputs)))


def detached_output() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        first, *others = call(*inputs)
        return (first.detach(), *others)

    _wrapped(around)


def off_by_one_index() -> None:
    def around(_loaded: Any, call: Call, inputs: tuple[torch.Tensor, ...]) -> Any:
        *others, last = call(*inputs)
        return (*others, last + (torch.arange(len(last)) == 2))

    _wrapped(around)


def another_order() -> None:
    """Honest: the same sums, added in another order and with other formulas for the composites."""
    graph.ByOperator = Reordered


class Reordered:
    """A graph that is run by ``Reassociated``."""

    def __init__(self, graph: Graph, weights: Mapping[str, torch.Tensor], device: str) -> None:
        self.inner = executable(graph, weights, device)
        self.places = dict(self.inner.state_dict(keep_vars=True))

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return Reassociated(self.inner).run(*inputs)


class Reassociated(torch.fx.Interpreter):
    """Runs a graph with every contraction split in three and the normalisations written out."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        other = _OTHER_ORDER.get(str(target))
        return super().call_function(target, args, kwargs) if other is None else other(*args, **kwargs)


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    parts = zip(input.tensor_split(3, -1), weight.tensor_split(3, -1), strict=True)
    total = sum(left.flip(-1) @ right.flip(-1).transpose(-1, -2) for left, right in parts)
    return total if bias is None else bias + total


def _matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    parts = zip(left.tensor_split(3, -1), right.tensor_split(3, -2), strict=True)
    return sum(one @ other for one, other in parts)  # type: ignore[return-value]


def _softmax(input: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
    weights = torch.exp2((input - input.amax(dim, keepdim=True)) * 1.4426950408889634)
    return weights * (1 / weights.flip(dim).cumsum(dim).narrow(dim, weights.shape[dim] - 1, 1))


def _layer_norm(input: torch.Tensor, _shape: Any, weight: Any, bias: Any, eps: float, *_cudnn: Any) -> torch.Tensor:
    mean = input.flip(-1).sum(-1, keepdim=True) / input.shape[-1]
    spread = (input - mean).square().flip(-1).mean(-1, keepdim=True)
    value = (input - mean) / (spread + eps).sqrt()
    return (value * (1 if weight is None else weight) + (0 if bias is None else bias)).contiguous()


_OTHER_ORDER: dict[str, Callable[..., torch.Tensor]] = {
    "aten.linear.default": _linear,
    "aten.matmul.default": _matmul,
    "aten.softmax.int": _softmax,
    "aten.layer_norm.default": _layer_norm,
}
