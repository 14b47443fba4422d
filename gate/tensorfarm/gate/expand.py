"""Composite operators spelled out, so that autograd and the noise see inside them.

A composite run as a black box hides its inner cancellation: gelu far left of zero loses its digits in ``1 + erf(x)``,
and honest candidates were rejected for it. The formulas are written from the operators' definitions; no decomposition
table is used, because a compiler may share it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch.overrides import TorchFunctionMode

Tensor = torch.Tensor


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (input + 0.044715 * (input * input * input))
        return 0.5 * input * (1 + torch.tanh(inner))
    return 0.5 * input * (1 + torch.erf(input * math.sqrt(0.5)))


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return input * torch.sigmoid(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.clamp(input + 3, 0, 6) / 6


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return input * torch.clamp(input + 3, 0, 6) / 6


def _shifted(input: Tensor, dim: Any) -> tuple[Tensor, Tensor, Tensor]:
    """``input`` minus its finite maximum, that maximum, and where every term is minus infinity; the shift cancels, so
    no gradient runs through it."""
    top = input.detach().amax(dim, keepdim=True)
    finite = top.masked_fill(top.isinf(), 0.0)
    return input - finite, finite, top.isneginf()


def softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    shifted, *_ = _shifted(input if dtype is None else input.to(dtype), dim)
    weights = torch.exp(shifted)
    return weights / weights.sum(dim, keepdim=True)


def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    shifted, *_ = _shifted(input if dtype is None else input.to(dtype), dim)
    return shifted + -torch.log(torch.exp(shifted).sum(dim, keepdim=True))


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    shifted, top, _ = _shifted(input, dim)
    wanted = torch.log(torch.exp(shifted).sum(dim, keepdim=True)) + top
    return wanted if keepdim else wanted.squeeze(dim)


# Welford's recurrence in a vector unit: that many lanes, started again after that many terms.
_LANES, _LONGEST_CHAIN = 16, 256


def _running_mean(input: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """The mean of what is going to be centred. Normalisations may take it by Welford's recurrence, whose every step
    rounds a mean that is far from small yet: over a chain of L terms ``u * sqrt(ln L)`` where a tree of sums leaves
    ``u * sqrt(log2 L / L)``. In the reals it is the mean; under noise its operands err as that recurrence does.
    """
    terms = math.prod(input.shape[dim] for dim in dims)
    chain = min(max(terms // _LANES, 1), _LONGEST_CHAIN)
    weight = math.sqrt(chain * math.log(chain) / 2) if chain > 1 else 0.0
    if weight < 1:
        return input.mean(list(dims), keepdim=keepdim)
    # Apart from the graph: what goes back through the two sums cancels to nothing, at the cost of five passes.
    beside = input.detach() * weight
    return ((input + beside) - beside).mean(list(dims), keepdim=keepdim)


def _normalized(input: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    # Not a difference: its gradient would be turned as a whole before it is summed.
    centered = input + -_running_mean(input, dims, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(list(dims), keepdim=True) + eps)


def _scaled(value: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    value = value if weight is None else value * weight
    return value if bias is None else value + bias


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    return _scaled(_normalized(input, dims, eps), weight, bias)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    per_channel = [1, -1] + [1] * (input.dim() - 2)
    grouped = input.reshape(input.shape[0], num_groups, -1)
    value = _normalized(grouped, (-1,), eps).reshape(input.shape)
    weight = None if weight is None else weight.reshape(per_channel)
    return _scaled(value, weight, None if bias is None else bias.reshape(per_channel))


# Fewer terms err by no more one by one than the operands of their tree do.
_ONE_BY_ONE = 64


def _summed(input: Tensor) -> Tensor:
    """The sum of each channel."""
    return input.sum([position for position in range(input.dim()) if position != 1])


def _summed_one_by_one(input: Tensor) -> Tensor:
    """The same sum, as a kernel makes it that reads channels last: one place after the other, and each partial sum is
    rounded. In the reals the partial sums minus themselves add nothing; under noise they add what those roundings do.
    """
    partial = input.detach().transpose(0, 1).flatten(1).cumsum(1)
    return _summed(input) + (partial * 1.0 - partial).sum(1)


class _AlongChannels(torch.autograd.Function):
    """A vector as wide as the input, whose gradient is summed one by one."""

    @staticmethod
    def forward(vector: Tensor, shape: torch.Size) -> Tensor:
        return vector.reshape([1, -1] + [1] * (len(shape) - 2)).expand(shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape = inputs[1]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return _summed_one_by_one(cotangents[0]), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].reshape([1, -1] + [1] * (len(ctx.shape) - 2)).expand(ctx.shape)


def _along_channels(vector: Tensor, input: Tensor) -> Tensor:
    """``vector`` holds a number for each channel of ``input``."""
    if input.dim() > 3 and input.numel() >= _ONE_BY_ONE * max(input.shape[1], 1):
        return _AlongChannels.apply(vector, input.shape)  # pyright: ignore[reportUnknownVariableType, reportReturnType]
    return vector.reshape([1, -1] + [1] * (input.dim() - 2))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training or running_mean is None or running_var is None:
        count = input.numel() // input.shape[1] if input.shape[1] else 0
        summed = _summed_one_by_one if count >= _ONE_BY_ONE and input.dim() > 3 else _summed
        mean = summed(input) / count
        centered = input + _along_channels(-mean, input)
        var = summed(centered * centered) / count
        if running_mean is not None and running_var is not None:
            unbiased = var.detach() * (count / max(count - 1, 1))
            with torch.no_grad():
                running_mean.copy_((1 - momentum) * running_mean + momentum * mean.detach())
                running_var.copy_((1 - momentum) * running_var + momentum * unbiased)
    else:
        centered, var = input - _along_channels(running_mean, input), running_var
    value = centered * _along_channels(torch.rsqrt(var + eps), input)
    weight = None if weight is None else _along_channels(weight, input)
    return _scaled(value, weight, None if bias is None else _along_channels(bias, input))


def _batch_norm_in_operator_order(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Without running statistics."""
    per_channel = [1, -1] + [1] * (input.dim() - 2)
    weight = None if weight is None else weight.reshape(per_channel)
    bias = None if bias is None else bias.reshape(per_channel)
    return _scaled(_normalized(input, tuple(range(2, input.dim())), eps), weight, bias)


def _instance_norm_in_operator_order(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention without dropout. A row whose every key is masked gives zeros, as torch has it."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    if attn_mask is not None:
        boolean = attn_mask.dtype is torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if boolean else scores + attn_mask
    shifted, _, masked = _shifted(scores, -1)
    weights = torch.exp(shifted)
    total = weights.sum(-1, keepdim=True)
    # Not where the total is zero: the noise would take that comparison for a step in the program.
    return (weights / total.masked_fill(masked, 1.0)) @ value


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    return functional.nll_loss(
        log_softmax(input, 1 if input.dim() > 1 else 0), target, weight, None, ignore_index, None, reduction
    )


class Expanded(TorchFunctionMode):
    """Replaces the composites wherever they are called from. ``narrow`` is the dtype that the program computes in."""

    def __init__(self, narrow: torch.dtype) -> None:
        super().__init__()
        self.narrow = narrow
        self.forms = _forms(self._rms_norm)
        self.patched: dict[str, Any] = {}

    def _rms_norm(
        self, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        """The default ``eps`` is a property of the program's dtype, not of float64."""
        dims = tuple(range(-len(normalized_shape), 0))
        eps = torch.finfo(self.narrow).eps if eps is None else eps
        return _scaled(input * torch.rsqrt((input * input).mean(dims, keepdim=True) + eps), weight, None)

    def __enter__(self) -> Any:
        # A Python composite such as multi_head_attention_forward runs with the mode off and looks its parts up here.
        for original, form in self.forms.items():
            name = getattr(original, "__name__", "")
            if getattr(functional, name, None) is original:
                self.patched[name] = original
                setattr(functional, name, _Form(original, form))
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        for name, original in self.patched.items():
            setattr(functional, name, original)
        self.patched.clear()
        super().__exit__(exc_type, exc_value, traceback)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        form = self.forms.get(func)
        return (func if form is None else _Form(func, form))(*args, **(kwargs or {}))


class _Form:
    """A composite's call: the spelled-out form where it has the same meaning, else the operator itself."""

    def __init__(self, original: Callable[..., Any], form: Callable[..., Any]) -> None:
        self.original, self.form = original, form
        self.names = tuple(inspect.signature(form).parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        if len(args) > len(self.names) or not self._covers(given):
            return self.original(*args, **kwargs)
        return self.form(**given)

    def _covers(self, given: dict[str, Any]) -> bool:
        if given.get("dropout_p", 0.0) or given.get("inplace", False):
            return False
        if self.form is cross_entropy:
            return not given["target"].is_floating_point() and not given.get("label_smoothing", 0.0)
        if self.form in (instance_norm, _instance_norm_in_operator_order):
            return given.get("running_mean") is None and given.get("use_input_stats", True)
        return "dim" not in self.names or given.get("dim") is not None


def _softmax_of_functional(input: Tensor, dim: int, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    return softmax(input, dim, dtype)


def _log_softmax_of_functional(
    input: Tensor, dim: int, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    return log_softmax(input, dim, dtype)


def _forms(rms_norm: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """Every spelling of a composite that a module or an exported graph may use."""
    aten = torch.ops.aten
    return {
        functional.gelu: gelu,
        aten.gelu.default: gelu,
        functional.silu: silu,
        aten.silu.default: silu,
        functional.hardswish: hardswish,
        aten.hardswish.default: hardswish,
        functional.hardsigmoid: hardsigmoid,
        aten.hardsigmoid.default: hardsigmoid,
        functional.softmax: _softmax_of_functional,
        torch.softmax: softmax,
        Tensor.softmax: softmax,
        aten.softmax.int: softmax,
        functional.log_softmax: _log_softmax_of_functional,
        torch.log_softmax: log_softmax,
        Tensor.log_softmax: log_softmax,
        aten.log_softmax.int: log_softmax,
        torch.logsumexp: logsumexp,
        Tensor.logsumexp: logsumexp,
        aten.logsumexp.default: logsumexp,
        functional.layer_norm: layer_norm,
        torch.layer_norm: layer_norm,
        aten.layer_norm.default: layer_norm,
        functional.rms_norm: rms_norm,
        torch.rms_norm: rms_norm,
        aten.rms_norm.default: rms_norm,
        functional.group_norm: group_norm,
        torch.group_norm: group_norm,
        aten.group_norm.default: group_norm,
        functional.batch_norm: batch_norm,
        torch.batch_norm: _batch_norm_in_operator_order,
        aten.batch_norm.default: _batch_norm_in_operator_order,
        functional.instance_norm: instance_norm,
        torch.instance_norm: _instance_norm_in_operator_order,
        aten.instance_norm.default: _instance_norm_in_operator_order,
        functional.scaled_dot_product_attention: scaled_dot_product_attention,
        aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
        functional.cross_entropy: cross_entropy,
    }
