"""Operators by name: how a graph spells one, and what torch's schema says about it.

A name is ``namespace.operator.overload``, or ``getitem`` for tuple access; it means the same in every process.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache

import torch
from torch._ops import OpOverload

from tensorfarm.contract.refusal import Refusal

GETITEM = "getitem"

# Registered by torch itself: what every process that imports torch knows, as compilers and subjects do. Collectives are
# left out: no judge has a process group.
SHIPPED_NAMESPACES = frozenset(
    {
        "_quantized",
        "aten",
        "inductor",
        "mkl",
        "mkldnn",
        "onednn",
        "prims",
        "profiler",
        "quantized",
        "rngprims",
        "sparse",
    }
)

# They state facts about sizes and metadata; they compute nothing and no output depends on them.
ASSERTIONS = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    }
)


def name_of(target: object) -> str:
    """``aten.add.Tensor`` for an OpOverload, ``getitem`` for tuple access. Refuses anything else."""
    if isinstance(target, OpOverload):
        return f"{target.namespace}.{target.__name__}"
    if target is operator.getitem:
        return GETITEM
    raise Refusal(
        f"the graph calls {getattr(target, '__name__', target)!s}, which is no operator with a schema",
        limit="tensor operators and tuple access",
        next_step="rewrite that part of the model without control flow or higher-order operators",
    )


@cache
def resolve(name: str) -> Callable[..., object]:
    """The callable behind ``name``. Refuses a name that this torch does not know."""
    if name == GETITEM:
        return operator.getitem
    try:
        namespace, packet, overload = name.split(".")
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except (ValueError, AttributeError):
        raise Refusal(
            f"operator {name!r} is unknown to torch {torch.__version__}",
            next_step="capture the program with a torch that knows it, or import the package that registers it",
        ) from None


def schema_of(name: str) -> torch.FunctionSchema | None:
    """The operator's schema; ``None`` for tuple access."""
    target = resolve(name)
    # torch has no public accessor for the schema of an overload.
    return target._schema if isinstance(target, OpOverload) else None  # pyright: ignore[reportPrivateUsage]


@cache
def is_random(name: str) -> bool:
    """True where the operator can draw from a generator; ``canonical.draws`` says whether a call does."""
    target = resolve(name)
    return isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
