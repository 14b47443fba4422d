"""Settings to make inputs for: leaves of any dtype, shape and layout, some of which share a storage."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from gate_contract import contract_with
from hypothesis import strategies as st

from tensorfarm.gate.setting import Facts, Leaf, Level, Setting

FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
INTEGRAL = (torch.int64, torch.uint8, torch.bool)
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def setting_of(
    inputs: Mapping[str, torch.Tensor],
    changes: Mapping[str, Any] | None = None,
    *,
    level: Level = Level.FULL,
    mode: str = "inference",
    seed: int = 0,
    **facts: bool,
) -> Setting:
    leaves = tuple(Leaf(name, value, requires_grad=value.requires_grad) for name, value in inputs.items())
    return Setting(contract_with(changes), leaves, Facts("module", **facts), mode, level, seed)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(dtype)


def at_level(setting: Setting, level: Level) -> Setting:
    return replace(setting, level=level)


@st.composite
def tensors(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = FLOATING + INTEGRAL) -> torch.Tensor:
    """Contiguous, transposed, with steps, expanded, moved into a storage, or with elements that overlap."""
    dtype, shape = draw(st.sampled_from(dtypes)), draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    whole = torch.randint(-4, 5, (*shape, 2), generator=generator).to(dtype)
    value = whole[..., 0].clone(memory_format=torch.contiguous_format)
    kind = draw(st.sampled_from(["contiguous", "transposed", "step", "expanded", "offset", "overlapping", "conjugate"]))
    if kind == "transposed" and len(shape) > 1:
        value = value.transpose(0, -1)
    elif kind == "step":
        value = whole[..., 1]
    elif kind == "expanded":
        value = value.unsqueeze(0).expand(3, *shape)
    elif kind == "offset":
        value = torch.cat([value.reshape(-1), value.reshape(-1)])[value.numel() :].view(shape)
    elif kind == "overlapping" and value.numel() > 2:
        value = value.reshape(-1).unfold(0, 2, 1)
    elif kind == "conjugate" and dtype.is_complex:
        value = value.conj()
    grad = draw(st.booleans()) and (dtype.is_floating_point or dtype.is_complex)
    return value.requires_grad_(grad)


@st.composite
def settings_of_any_leaves(draw: st.DrawFn) -> Setting:
    """One to three leaves; now and then a further one that is a view of the first."""
    found = {f"x{number}": draw(tensors()) for number in range(draw(st.integers(1, 3)))}
    first = found["x0"].detach()
    if draw(st.booleans()) and first.dim():
        found["view"] = first[1:]
    mode = draw(st.sampled_from(["inference", "training"]))
    return setting_of(found, level=draw(st.sampled_from(list(Level))), mode=mode, seed=draw(st.integers(0, 5)))
