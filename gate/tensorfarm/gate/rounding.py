"""Which operators round, and how: a table, so that what the noise assumes of an operator can be read in one place.

An operator that is not named here rounds its result once. Naming one as exact narrows the budget, so only operators
that move, select or compare values are; one that sums several terms must be named, or its budget is too narrow.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import cache
from typing import Any

_MOVEMENT = """
_copy_from _local_scalar_dense _pin_memory _to_copy _unsafe_view abs amax amin arange argmax argmin argsort
as_strided_scatter bernoulli bitwise_and bitwise_not cat ceil clamp clamp_max clamp_min clone complex
constant_pad_nd copy cummax cummin detach diagonal_scatter embedding empty empty_like empty_strided eq eye fill flip
floor frac full full_like gather ge gt hardtanh hardtanh_backward index index_fill index_select isinf isnan kthvalue
le lift lift_fresh lift_fresh_copy linspace lt masked_fill masked_scatter masked_select max max_pool2d_with_indices
maximum median min minimum mode ne neg new_empty new_empty_strided new_full new_ones new_zeros nonzero normal ones
ones_like permute_copy pixel_shuffle pixel_unshuffle rand randint randn reflection_pad1d reflection_pad2d relu
repeat replication_pad2d roll round scalar_tensor select_backward select_scatter sgn sign slice_backward
slice_scatter sort stack threshold threshold_backward topk tril triu trunc unbind_copy uniform upsample_nearest2d
where zeros zeros_like
"""
_SUMS = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _embedding_bag _fft_c2c _fft_c2r _fft_r2c _log_softmax
_log_softmax_backward_data _native_batch_norm_legit _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward _softmax _softmax_backward_data _trilinear _upsample_bicubic2d_aa
_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward adaptive_avg_pool2d
avg_pool1d avg_pool2d avg_pool2d_backward cholesky cholesky_inverse cholesky_solve convolution convolution_backward
cumprod cumsum embedding_dense_backward grid_sampler_2d grid_sampler_2d_backward index_add index_put logcumsumexp
logsumexp mean nansum native_batch_norm native_batch_norm_backward native_group_norm native_group_norm_backward
native_layer_norm native_layer_norm_backward nll_loss2d_forward nll_loss_backward nll_loss_forward norm prod
scatter_add scatter_reduce std sum triangular_solve upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_trilinear3d
upsample_trilinear3d_backward var var_mean
"""
# Solvers and factorisations: backward stable, so that they err as if their operands did.
_LINEAR_ALGEBRA = "linalg_"
# Weighted sums whose weights come from rounded coordinates.
RESAMPLING = ("upsample_", "grid_sampler_")
EXACT = frozenset(_MOVEMENT.split())
REDUCTIONS = frozenset(_SUMS.split())
CONTRACTIONS = frozenset({"addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "dot", "mm", "mv", "vdot"})


class Rounding(Enum):
    """``WRITES`` is an operator that rounds into its first argument."""

    EXACT = auto()
    ROUNDS = auto()
    REDUCES = auto()
    WRITES = auto()


@cache
def rounding_of(func: Any) -> Rounding:
    """How an ATen overload rounds. An in-place operator is judged by its functional name; a view is exact."""
    name = func.overloadpacket.__name__
    schema = func._schema
    if name.rstrip("_") in EXACT or name in EXACT:
        return Rounding.EXACT
    if schema.is_mutable:
        return Rounding.WRITES
    if any(result.alias_info is not None for result in schema.returns):
        return Rounding.EXACT
    reduces = name in CONTRACTIONS or name in REDUCTIONS or name.lstrip("_").startswith(_LINEAR_ALGEBRA)
    return Rounding.REDUCES if reduces else Rounding.ROUNDS
