"""Which operators round, and how: a table, so that what the noise assumes of an operator can be read in one place.

An operator that is not named here rounds its result once. Naming one as exact narrows the budget, so only operators
that move, select or compare values are; one that sums several terms must be named, or its budget is too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto
from functools import cache
from typing import Any

_MOVEMENT = """
_copy_from _local_scalar_dense _pin_memory _to_copy _unsafe_view _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d abs amax amin aminmax arange argmax argmin argsort as_strided_scatter bernoulli bitwise_and
bitwise_not cat ceil channel_shuffle clamp clamp_max clamp_min clone complex constant_pad_nd copy copysign count_nonzero
cummax cummin detach diagonal_scatter embedding empty empty_like empty_strided eq expand_copy eye fill flip floor fmax
fmin frac full full_like gather ge gt hardtanh hardtanh_backward index index_fill index_select isinf isnan isneginf
isposinf kthvalue le lift lift_fresh lift_fresh_copy logical_not lt masked_fill masked_scatter masked_select max
max_pool2d_with_indices max_pool3d_with_indices maximum median min minimum mode nanmedian narrow_copy ne neg new_empty
new_empty_strided new_full new_ones new_zeros nonzero normal one_hot ones ones_like permute_copy pixel_shuffle
pixel_unshuffle rand randint randn reflection_pad1d reflection_pad2d reflection_pad3d relu repeat replication_pad1d
replication_pad2d replication_pad3d resolve_conj resolve_neg roll round scalar_tensor scatter select_backward
select_scatter sgn sign signbit slice_backward slice_scatter sort stack swapaxes take threshold threshold_backward topk
tril triu trunc unbind_copy unfold uniform upsample_nearest1d upsample_nearest2d upsample_nearest3d view_copy where
zeros zeros_like
"""
_SUMS = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward
_batch_norm_with_update _cdist_backward _cdist_forward _ctc_loss _ctc_loss_backward _embedding_bag
_embedding_bag_dense_backward _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _index_put_impl _log_softmax
_log_softmax_backward_data _native_batch_norm_legit _pdist_backward _pdist_forward _safe_softmax
_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward _softmax
_softmax_backward_data _thnn_fused_lstm_cell _trilinear _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
_upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_nearest_exact1d_backward
_upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward adaptive_avg_pool2d avg_pool1d avg_pool2d
avg_pool2d_backward avg_pool3d avg_pool3d_backward batch_norm_backward binary_cross_entropy cholesky cholesky_inverse
cholesky_solve col2im convolution convolution_backward cumprod cumsum dist embedding_dense_backward geqrf
grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward huber_loss index_add index_put
index_reduce logcumsumexp logsumexp max_pool2d_with_indices_backward max_pool3d_with_indices_backward mean
mkldnn_rnn_layer mse_loss multi_margin_loss multi_margin_loss_backward nansum native_batch_norm
native_batch_norm_backward native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
nll_loss2d_forward nll_loss_backward nll_loss_forward norm orgqr ormqr prod reflection_pad1d_backward
reflection_pad2d_backward reflection_pad3d_backward renorm replication_pad1d_backward replication_pad2d_backward
replication_pad3d_backward scatter_add scatter_reduce segment_reduce smooth_l1_loss std sum trace triangular_solve
unfold_backward upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d upsample_bilinear2d_backward
upsample_linear1d upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward
upsample_nearest3d_backward upsample_trilinear3d upsample_trilinear3d_backward var var_mean
"""
# Solvers and factorisations: backward stable, so that they err as if their operands did.
_LINEAR_ALGEBRA = "linalg_"
# Of single elements, but wrong by far more than a rounding of the result: a product inside that cancels, or a root
# of the function near an argument that was scaled. They err as if their operands did, once.
_INNER = """
addcdiv addcmul airy_ai digamma lerp logit mish_backward polygamma silu_backward sinc soft_margin_loss
soft_margin_loss_backward softplus softplus_backward special_airy_ai special_bessel_j0 special_bessel_j1
special_bessel_y0 special_bessel_y1 special_erfcx special_i1 special_i1e special_log_ndtr
"""
# Overloads that round though the operator of that name only moves or chooses.
_ROUNDING_FORMS = ("decimals", "reduce", "value_reduce")
# Sums, unless they are told to select.
_AS_TOLD = frozenset({"index_reduce", "linalg_vector_norm", "norm", "scatter_reduce"})
_SELECTIONS = frozenset({"amax", "amin", math.inf, -math.inf})
# Weighted sums whose weights come from rounded coordinates.
RESAMPLING = ("upsample_", "grid_sampler_")
# Sums that every runtime keeps wide inside, with the position of the operand that is added to them; -1 where none is.
ACCUMULATED = {"mm": -1, "bmm": -1, "sum": -1, "mean": -1, "addmm": 0, "baddbmm": 0, "convolution": 2}
# Results that are exact as quotients, and round where the divisor's reciprocal is multiplied by.
QUOTIENTS = frozenset({"div", "mean", "reciprocal", "avg_pool2d", "_adaptive_avg_pool2d", "var", "var_mean"})
# Operators that make subnormal numbers of ordinary ones, where their absolute error is no longer their own size's.
POWERS = frozenset({"exp", "exp2", "pow", "sigmoid", "_softmax"})
EXACT = frozenset(_MOVEMENT.split())
REDUCTIONS = frozenset(_SUMS.split())
INNER = frozenset(_INNER.split())
CONTRACTIONS = frozenset({"addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "dot", "mm", "mv", "vdot"})
_STEPS = """
all any argmax argmin argsort bincount bucketize ceil eq equal fix floor floor_divide fmod frac ge gt hardshrink
heaviside histc isin kthvalue le logical_and logical_not logical_or logical_xor lt median mode multinomial nanmedian ne
nonzero remainder round searchsorted sgn sign sort topk trunc unique_consecutive unique_dim _unique2
"""
# Operators whose result jumps where a floating operand moves a little: a value in a step, or an index.
STEPS = frozenset(_STEPS.split())


class Rounding(Enum):
    """``REDUCES`` is an operator whose operands err too."""

    EXACT = auto()
    ROUNDS = auto()
    REDUCES = auto()


@cache
def name_of(func: Any) -> str:
    """The operator's name without its overload."""
    return func.overloadpacket.__name__


@cache
def functional_name_of(func: Any) -> str:
    """The name that the tables have: of an operator that writes to its operand, that of the one which does not."""
    name = name_of(func)
    return name if name.startswith("__") else name.rstrip("_")


@cache
def is_step(func: Any) -> bool:
    """Whether an overload has steps whatever it is called with: a cast has only to integers and booleans."""
    name = functional_name_of(func)
    rounds_quotient = name in ("div", "divide") and "mode" in func._overloadname
    return name in STEPS or rounds_quotient or (name in ("max", "min") and func._overloadname == "dim")


@cache
def rounding_of(func: Any) -> Rounding:
    """How an ATen overload rounds. One that writes is judged by its functional name; a view is exact."""
    name, plain = name_of(func), functional_name_of(func)
    if (plain in EXACT or name in EXACT) and func._overloadname not in _ROUNDING_FORMS:
        return Rounding.EXACT
    if not func._schema.is_mutable and any(result.alias_info is not None for result in func._schema.returns):
        return Rounding.EXACT
    reduces = plain in CONTRACTIONS or plain in REDUCTIONS or plain in INNER
    reduces = reduces or plain.lstrip("_").startswith(_LINEAR_ALGEBRA)
    return Rounding.REDUCES if reduces else Rounding.ROUNDS


def rounding_in(func: Any, args: Sequence[Any]) -> Rounding:
    """How this call rounds: a scatter or a norm sums or selects as it is told."""
    told = [value for value in args[1:] if isinstance(value, (str, float))]  # a tensor cannot be looked up
    selects = functional_name_of(func) in _AS_TOLD and any(value in _SELECTIONS for value in told)
    return Rounding.EXACT if selects else rounding_of(func)


@cache
def written_of(func: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """What an overload writes to: positions among its operands, and names among those by keyword."""
    arguments = func._schema.arguments
    written = [(place, item) for place, item in enumerate(arguments) if item.alias_info and item.alias_info.is_write]
    return (
        tuple(place for place, item in written if not item.kwarg_only),
        tuple(item.name for _, item in written if item.kwarg_only),
    )


@cache
def fresh_of(func: Any) -> tuple[int, ...]:
    """Which of an overload's results are tensors of their own, and not what it wrote to."""
    return tuple(place for place, item in enumerate(func._schema.returns) if item.alias_info is None)
