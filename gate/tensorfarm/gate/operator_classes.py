"""Which classes of operators lie on the way to a result, in the contract's words: its determinism is declared by class.

The original is watched, not the subject: a class is what the program asks for, whatever a compiler makes of it. An
embedding's gradient is a sum into indexed places, whoever writes it. Invariant: every operator that wrote to a result's
memory, or to what it was made of, is on its way; what only moves or selects values is of no class.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.operands import is_nowhere, tensors_in
from tensorfarm.gate.rounding import (
    CONTRACTIONS,
    REDUCTIONS,
    Rounding,
    functional_name_of,
    name_of,
    rounding_of,
    written_of,
)

ELEMENTWISE, REDUCTION, CONTRACTION = "elementwise", "reduction", "contraction"
SCATTER_ADD, RNG = "scatter_add", "rng"

# Sums into places that an index names, or that windows share: parallel ones meet there in any order.
_SCATTERS = """
_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _embedding_bag _embedding_bag_dense_backward
_embedding_bag_backward _embedding_bag_sparse_backward _index_put_impl _upsample_bicubic2d_aa_backward
_upsample_bilinear2d_aa_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
_upsample_nearest_exact3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward avg_pool2d_backward
avg_pool3d_backward bincount col2im embedding_dense_backward fractional_max_pool2d_backward
fractional_max_pool3d_backward grid_sampler_2d_backward grid_sampler_3d_backward histc index_add index_put index_reduce
max_pool2d_with_indices_backward max_pool3d_with_indices_backward put reflection_pad1d_backward
reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward
replication_pad3d_backward scatter_add scatter_reduce unfold_backward upsample_bicubic2d_backward
upsample_bilinear2d_backward upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward
upsample_nearest3d_backward upsample_trilinear3d_backward
"""
_PRODUCTS = ("convolution", "linalg_", "scaled_dot_product", "cdist", "euclidean_dist", "mkldnn", "thnn_fused", "ctc_")
_SCATTERING = frozenset(_SCATTERS.split())
# They only write where they are not told to add; the position of the word that tells it.
_IF_ACCUMULATING = {"index_put": 3, "_index_put_impl": 3, "put": 3}
_FRESH = frozenset({"lift_fresh", "lift_fresh_copy"})
_NONE = frozenset[str]()


class Watched(TorchDispatchMode):
    """Runs operators as they are, and notes by memory what each result is made by."""

    def __init__(self) -> None:
        super().__init__()
        self._ways: dict[int, frozenset[str]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under the mode, and the wrapper that guards against it loads a compiler and costs."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = _tensors([*args, *kwargs.values()])
        # Its memory is new, though no operator is seen to make it: what was there before is over.
        before = () if name_of(func) in _FRESH else map(self.way_to, given)
        own = class_of(func, args, kwargs)
        way = _NONE.union(*before, () if own is None else (own,))
        positions, names = written_of(func)
        written = [args[place] for place in positions if place < len(args)] + [kwargs.get(name) for name in names]
        for value in _tensors([result, *written]):
            self._ways[_memory(value)] = way
        return result

    def way_to(self, value: torch.Tensor) -> frozenset[str]:
        """Classes of the operators that what lies in this tensor's memory was made by."""
        return self._ways.get(_memory(value), _NONE) if _tensors([value]) else _NONE


def class_of(func: Any, args: Any, kwargs: Any) -> str | None:
    """The class of one call of an ATen overload; None where it rounds nothing and draws nothing."""
    plain = functional_name_of(func)
    if plain in _IF_ACCUMULATING:
        place = _IF_ACCUMULATING[plain]
        adds = kwargs.get("accumulate", args[place] if len(args) > place else False)
        return SCATTER_ADD if adds else None
    return _class_of(func)


@cache
def _class_of(func: Any) -> str | None:
    plain = functional_name_of(func)
    if torch.Tag.nondeterministic_seeded in func.tags:
        return RNG
    if plain in _SCATTERING:
        return SCATTER_ADD
    kind = rounding_of(func)
    if plain == "scatter" and kind is not Rounding.EXACT:
        return SCATTER_ADD
    if plain in CONTRACTIONS or plain.lstrip("_").startswith(_PRODUCTS):
        return CONTRACTION
    if plain in REDUCTIONS:
        return REDUCTION
    return None if kind is Rounding.EXACT else ELEMENTWISE


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """Those that have memory."""
    found = tensors_in(values)
    return [value for value in found if value.layout is torch.strided and value.numel() and not is_nowhere(value)]


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()
