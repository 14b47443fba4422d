"""A sum that is added one term after the other errs by its partial sums: where that is honest, and what is not."""

from collections.abc import Callable

import pytest
import torch
from gate_contract import contract_with
from gate_settings import randn

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import reference_of_module
from tensorfarm.gate.trial import Call, Depth, Trial

Function = Callable[..., torch.Tensor]
CPU, CARD = contract_with(), contract_with({"devices": ["cpu", "cuda"]})
TERMS = 8192


class Applied(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *leaves: torch.Tensor) -> torch.Tensor:
        return self.function(*leaves)


def expected_of(contract: NumericalContract, function: Function, *leaves: torch.Tensor) -> Expected:
    inputs = {f"args[{place}]": leaf for place, leaf in enumerate(leaves)}
    trial = Trial("example", (Call(inputs),), Depth.BUDGET)
    reference = reference_of_module(Applied(function), leaves, {})
    (found,) = expectations(reference, [trial], contract, 0)["example"]
    wanted = found.expected("output:0")
    assert wanted is not None
    return wanted


def passes(contract: NumericalContract, seen: torch.Tensor, wanted: Expected) -> bool:
    return agreement("forward", "output 0", seen, wanted, contract.outputs, 1).status is Status.PASS


def one_by_one(terms: torch.Tensor) -> torch.Tensor:
    """Along the first axis, every partial sum rounded, as numpy and a thread of a graphics card do."""
    return torch.from_numpy(terms.numpy().cumsum(0, dtype="float32"))


@pytest.mark.parametrize("sign", ["both", "one"])
def test_a_product_added_term_by_term_is_honest_where_a_card_is_listed_and_tf32_is_not(sign: str) -> None:
    x, y = randn(17, TERMS), randn(TERMS, 13)
    x, y = (x.abs(), y.abs()) if sign == "one" else (x, y)
    seen = one_by_one((x.t().unsqueeze(-1) * y.unsqueeze(1)).reshape(TERMS, -1))[-1].view(17, 13)
    wanted = expected_of(CARD, torch.matmul, x, y)
    assert passes(CARD, seen, wanted)
    assert not passes(CPU, seen, expected_of(CPU, torch.matmul, x, y))
    cut = [((value.view(torch.int32) >> 13) << 13).view(torch.float32) for value in (x, y)]
    assert not passes(CARD, torch.matmul(*cut), wanted)


def test_a_scan_is_added_one_by_one_anywhere_and_its_first_places_earn_no_more_for_that() -> None:
    x = randn(TERMS, 8)
    wanted = expected_of(CPU, lambda x: x.cumsum(0), x)
    seen = one_by_one(x)
    assert passes(CPU, seen, wanted)
    seen[2, 0] *= 1 + 1e-5
    assert not passes(CPU, seen, wanted)


def test_terms_that_are_scattered_to_one_place_are_added_one_by_one_and_one_alone_is_not_rounded() -> None:
    x, index = randn(TERMS + 1, 8), torch.zeros(TERMS + 1, dtype=torch.int64)
    index[-1] = 1

    def scattered(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, 8, dtype=x.dtype).index_add(0, index, x)

    wanted = expected_of(CPU, scattered, x)
    seen = torch.stack([one_by_one(x[:-1])[-1], x[-1]])
    assert passes(CPU, seen, wanted)
    seen[1, 0] *= 1 + 1e-5
    assert not passes(CPU, seen, wanted)


def test_what_nothing_is_scattered_to_and_a_scan_of_integers_err_by_nothing() -> None:
    """As the rows of an embedding that no token names, and positions counted by a mask."""
    places, terms, mask = torch.tensor([1, 1, 3]), randn(3, 5), torch.ones(4, 6, dtype=torch.int64)
    added = expected_of(CPU, lambda x: torch.zeros(4, 5).index_add(0, places, x), terms)
    assert added.sigma is not None
    assert bool(added.sigma.isfinite().all())
    smallest = torch.finfo(torch.float64).tiny  # less than that marks a zero of either sign
    assert torch.equal((added.sigma > smallest).any(1), torch.tensor([False, True, False, True]))
    counted = expected_of(CPU, lambda x: x * mask.cumsum(1), randn(4, 6))
    assert counted.sigma is not None
    assert bool((counted.sigma > 0).all())
