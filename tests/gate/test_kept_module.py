"""A module that was lent is given back as it was: its objects, whatever it holds them in, and its values."""

from typing import Any

import pytest
import torch
from torch import nn

from tensorfarm.gate import Outcome, between, certify
from tensorfarm.gate.kept_module import KeptModules

IDS = torch.randint(0, 9, (3, 5), generator=torch.Generator().manual_seed(1))


class Recurrent(nn.Module):
    """Its layer keeps the weights a second time, in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.layer = nn.LSTM(4, 6, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(ids))[0]


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.by_name: dict[str, Any] = {"first": [self.linear.weight], "seen": {1}}
        self.in_pairs: tuple[Any, ...] = (1, [self.linear.bias])


@pytest.mark.parametrize("change", between.CHANGES)
def test_a_recurrent_layer_computes_what_it_did_before_it_was_changed(change: str) -> None:
    torch.manual_seed(0)
    module = Recurrent()
    kept, before = KeptModules([module]), module(IDS)
    between.apply(module, change, 1)
    kept.put_back()
    assert torch.equal(module(IDS), before)


def test_lists_dictionaries_and_sets_are_given_back_with_the_objects_that_they_held() -> None:
    module = Holding()
    inner, pair = module.by_name["first"], module.in_pairs[1]
    kept = KeptModules([module])
    inner.append(1)
    pair.clear()
    module.by_name["seen"].add(2)
    module.by_name["more"] = {3}
    module.another = nn.Linear(1, 1)
    kept.put_back()
    assert list(module.by_name) == ["first", "seen"]
    assert module.by_name["first"] is inner
    assert inner[0] is module.linear.weight
    assert len(inner) == 1
    assert module.by_name["seen"] == {1}
    assert pair[0] is module.linear.bias
    assert not hasattr(module, "another")


@pytest.mark.slow
def test_a_compiled_recurrent_module_raises_no_alarm_after_its_parameters_were_swapped() -> None:
    torch.manual_seed(0)
    module = Recurrent()
    verdict = certify(module, torch.compile(module, backend="eager"), (IDS,), level="standard")
    assert (verdict.outcome, verdict.message) == (Outcome.ADMITTED, "")
