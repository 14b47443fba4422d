"""The oracle's tensors in fewer bytes: what comes back decides as what went in, or was kept whole."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.gate.residuals import residual, restored, rounded_up

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
NUMBERS = st.floats(width=64, allow_nan=True, allow_infinity=True)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """An original's tensor and the exact one: anything, or what a few roundings make of it."""
    dtype = draw(st.sampled_from(DTYPES))
    exact = torch.tensor(draw(st.lists(NUMBERS, min_size=1, max_size=8)), dtype=torch.float64)
    if draw(st.booleans()):
        exact = exact.to(dtype).double()  # numbers of the dtype, which may be asked for bit by bit
    noise = torch.tensor(draw(st.lists(st.floats(-8, 8), min_size=len(exact), max_size=len(exact)))).double()
    return (exact * (1 + noise * torch.finfo(dtype).eps)).to(dtype), exact


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_what_comes_back_is_the_value_and_as_much_of_its_dtype(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    eager, exact = pair
    lacks = residual(eager, exact)
    if lacks is None:
        return
    again = restored(eager, lacks)
    assert lacks.dtype == torch.float32
    assert bool(((again - exact).abs() <= (exact - eager).abs() * 2.0**-23).all())
    assert torch.equal(again.to(eager.dtype), exact.to(eager.dtype))
    assert torch.equal(again.to(eager.dtype) == again, exact.to(eager.dtype) == exact)


def test_ordinary_values_are_kept_so_and_others_whole() -> None:
    exact = torch.linspace(-3, 5, 1000, dtype=torch.float64).sin()
    assert residual((exact * (1 + 3e-7)).float(), exact) is not None
    for odd in (torch.inf, torch.nan, 1e300):
        other = exact.clone()
        other[7] = odd
        assert residual(other.float(), other) is None
    assert residual(exact, exact) is None, "a float64 original needs all digits"
    assert residual(torch.tensor([1.0]), torch.tensor([1.0 + 2.0**-24 + 2.0**-50], dtype=torch.float64)) is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(0, allow_infinity=True), min_size=1, max_size=8))
def test_a_spread_is_never_narrower_and_hardly_wider(values: list[float]) -> None:
    sigma = torch.tensor(values, dtype=torch.float64)
    found = rounded_up(torch.zeros(len(sigma)), sigma)
    assert bool((found >= sigma).all())
    assert bool((found.double() / (1 + 2.0**-22) <= sigma).all())
    assert torch.equal(found.isinf(), sigma.isinf())
    assert torch.equal(found == 0, sigma == 0)


def test_a_spread_that_float32_cannot_tell_is_kept_whole() -> None:
    for value in (1e-310, 1e-44, 1e39):
        sigma = torch.tensor([1.0, value], dtype=torch.float64)
        assert rounded_up(torch.zeros(2), sigma) is sigma
    assert rounded_up(torch.zeros(2), torch.tensor([0.0, 1e-5], dtype=torch.float64)).dtype == torch.float32
