"""Honest variants of composites: expanded, fused, online, split, or on other threads. All of them are right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import places

ONE_BY_ONE = (
    "gelu",
    "tanh",
    "exp",
    "sigmoid",
    "log1p",
    "relu",
    "silu",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
)
LOG2_E = 1.4426950408889634
ONLINE_BLOCK = 4
_FUSED = (torch.float32, torch.float16, torch.bfloat16)


def _of(forms: Mapping[str, Operator], what: str) -> Callable[[Program], Iterator[Change]]:
    def changes(program: Program) -> Iterator[Change]:
        for place in places(program, tuple(forms)):
            if place.result is not None and place.result.dtype.is_floating_point:
                yield place.change(what, forms[place.op])

    return changes


def _softmax_by_two(_right: Callable[[Given], Any], given: Given) -> Any:
    x, axis = given["self"], given["dim"]
    powers = torch.exp2((x - x.amax(axis, keepdim=True)) * LOG2_E)
    return powers / powers.sum(axis, keepdim=True)


def _online_softmax(_right: Callable[[Given], Any], given: Given) -> Any:
    """Block after block with a running maximum, the sum rescaled as it grows. The maximum cancels: it has no gradient,
    which at ties would be another one."""
    x, axis = given["self"], given["dim"]
    blocks = x.split(ONLINE_BLOCK, axis)
    largest = blocks[0].detach().amax(axis, keepdim=True)
    total = (blocks[0] - largest).exp().sum(axis, keepdim=True)
    for block in blocks[1:]:
        now = torch.maximum(largest, block.detach().amax(axis, keepdim=True))
        before = torch.where(largest == now, torch.ones_like(largest), (largest - now).exp())
        total = total * before + (block - now).exp().sum(axis, keepdim=True)
        largest = now
    return (x - largest).exp() / total


def _log_softmax(_right: Callable[[Given], Any], given: Given) -> Any:
    x, axis = given["self"], given["dim"]
    shifted = x - x.amax(axis, keepdim=True)
    return shifted - shifted.exp().sum(axis, keepdim=True).log()


def _cross_entropy(_right: Callable[[Given], Any], given: Given) -> Any:
    logs = torch.log_softmax(given["self"], 1)
    return -logs.gather(1, given["target"].unsqueeze(1)).squeeze(1).mean()


def wide(x: torch.Tensor) -> torch.Tensor:
    """Half precision as float32, which norms are kept in inside: a square would overflow earlier than the original."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def scaled(value: torch.Tensor, given: Given) -> torch.Tensor:
    """A norm's weight and bias, where it has them, and its input's dtype."""
    value = value if given.get("weight") is None else value * given["weight"]
    return (value if given.get("bias") is None else value + given["bias"]).to(given["input"].dtype)


def _two_pass_layer_norm(_right: Callable[[Given], Any], given: Given) -> Any:
    x = wide(given["input"])
    centred = x - x.mean(-1, keepdim=True)
    return scaled(centred / ((centred * centred).mean(-1, keepdim=True) + given["eps"]).sqrt(), given)


def _rms_norm(_right: Callable[[Given], Any], given: Given) -> Any:
    x = wide(given["input"])
    eps = torch.finfo(x.dtype).eps if given.get("eps") is None else given["eps"]
    return scaled(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps), given)


def _var(_right: Callable[[Given], Any], given: Given) -> Any:
    x, axes = wide(given["self"]), given["dim"]
    centred = x - x.mean(axes, keepdim=True)
    return (centred.square().sum(axes) / (math.prod(x.shape[axis] for axis in axes) - 1)).to(given["self"].dtype)


def _erf_gelu(_right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    return x * 0.5 * torch.erfc(-x * math.sqrt(0.5))


def _in_float64(right: Callable[[Given], Any], given: Given) -> Any:
    """Computed in float64 and rounded once."""
    wide = {
        key: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for key, value in given.items()
    }
    dtypes = [value.dtype for value in given.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    return right(wide).to(dtypes[0]) if dtypes else right(given)


def _row_by_row(right: Callable[[Given], Any], given: Given) -> Any:
    """On parts of the first axis, put together again."""
    name = "self" if "self" in given else "input"
    x = given[name]
    if x.dim() < 2 or not x.is_contiguous() or given.get("dim", -1) in (0, -x.dim()):
        return right(given)
    return torch.cat([right({**given, name: part}) for part in x.split(2)])


def _expanded_attention(_right: Callable[[Given], Any], given: Given) -> Any:
    """Both factors are scaled before they are multiplied, so that nothing overflows earlier than in the original."""
    query, key, value = given["query"], given["key"], given["value"]
    scale = math.sqrt(given.get("scale") or 1 / math.sqrt(query.shape[-1]))
    scores = (query * scale) @ (key * scale).transpose(-2, -1)
    if given.get("is_causal"):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    # Tokens before heads in memory, as the fused kernel leaves them.
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).contiguous().transpose(1, 2)


def _unfolded_convolution(_right: Callable[[Given], Any], given: Given) -> Any:
    x, weight = given["input"], given["weight"]
    stride, padding = given.get("stride", [1, 1]), given.get("padding", [0, 0])
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    sizes = [(x.shape[2 + n] + 2 * padding[n] - weight.shape[2 + n]) // stride[n] + 1 for n in (0, 1)]
    value = (weight.flatten(1) @ columns).view(x.shape[0], weight.shape[0], *sizes)
    value = value if given.get("bias") is None else value + given["bias"].view(-1, 1, 1)
    return value.contiguous(memory_format=torch.channels_last)


def _batch_norm(_right: Callable[[Given], Any], given: Given) -> Any:
    x, momentum = given["input"], given["momentum"]
    axes, shape = [0, 2, 3], (1, -1, 1, 1)
    mean = x.mean(axes)
    centred = x - mean.view(shape)
    spread = centred.square().mean(axes)
    inverse = torch.rsqrt(spread + given["eps"])
    value = centred * inverse.view(shape) * given["weight"].view(shape) + given["bias"].view(shape)
    count = x.numel() // x.shape[1]
    new_mean = torch.lerp(given["running_mean"], mean, momentum)
    new_var = torch.lerp(given["running_var"], spread * (count / (count - 1)), momentum)
    return value, mean, inverse, new_mean, new_var


def _one_hot_embedding(_right: Callable[[Given], Any], given: Given) -> Any:
    places = F.one_hot(given["indices"], given["weight"].shape[0])
    return places.to(given["weight"].dtype) @ given["weight"]


def _fused(program: Program) -> Iterator[Change]:
    """A product and the sum after it, with one rounding instead of two."""
    for place in places(program, ("add", "sub")):
        for name in ("self", "other"):
            operand = place.given[name]
            product = place.graph.nodes.get(getattr(operand, "name", ""))
            result = place.result
            if product is None or product.op != "aten.mul.Tensor" or result is None or result.dtype not in _FUSED:
                continue
            kept: list[tuple[Any, Any]] = []
            operators = {product.name: _keeping(kept), place.node.name: _adding(kept, name, result.dtype)}
            yield Change(f"{product.name} and {place.node.name}: fused", operators)


def _keeping(kept: list[tuple[Any, Any]]) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        kept[:] = [(given["self"], given["other"])]
        return right(given)

    return operator


def _adding(kept: list[tuple[Any, Any]], name: str, dtype: torch.dtype) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        left, factor = (item.double() if isinstance(item, torch.Tensor) else item for item in kept[0])
        return right({**given, name: left * factor}).to(dtype)

    return operator


def _on_threads(count: int) -> Callable[[Program], Iterator[Change]]:
    def wrap(module: torch.nn.Module) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = torch.get_num_threads()
            torch.set_num_threads(count)
            try:
                return module(*args, **kwargs)
            finally:
                torch.set_num_threads(before)

        return call

    def changes(_program: Program) -> Iterator[Change]:
        yield Change(f"on {count} threads", wrap=wrap)

    return changes


_EXPANDED: dict[str, Operator] = {
    "softmax": _softmax_by_two,
    "log_softmax": _log_softmax,
    "cross_entropy_loss": _cross_entropy,
    "layer_norm": _two_pass_layer_norm,
    "rms_norm": _rms_norm,
    "var": _var,
    "gelu": _erf_gelu,
    "scaled_dot_product_attention": _expanded_attention,
    "conv2d": _unfolded_convolution,
    "embedding": _one_hot_embedding,
}
_REDUCED = ("logsumexp", "cumsum", "var", "avg_pool2d", "conv2d", "div", "index_add", "scatter_add")
_WIDE: dict[str, Operator] = dict.fromkeys((*ONE_BY_ONE, *_REDUCED, "scaled_dot_product_attention"), _in_float64)

HONEST = (
    Fault("H30", (), "composites written out", _of(_EXPANDED, "written out")),
    Fault("H31", (), "softmax block by block", _of({"softmax": _online_softmax}, "block by block")),
    Fault("H32", (), "in float64, rounded once", _of(_WIDE, "in float64, rounded once")),
    Fault("H33", (), "part by part", _of(dict.fromkeys(ONE_BY_ONE, _row_by_row), "part by part")),
    Fault("H34", (), "product and sum with one rounding", _fused),
    Fault(
        "H35", (), "batch norm written out", _of({"_native_batch_norm_legit_functional": _batch_norm}, "written out")
    ),
    *(Fault(f"H{39 + count}", (), f"on {count} threads", _on_threads(count)) for count in (1, 2, 4)),
)
