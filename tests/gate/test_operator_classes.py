"""By which classes of operators a result came about: of the original, forward and backward."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tensorfarm.gate.operator_classes import Watched

Call = Callable[[torch.Tensor], torch.Tensor]
INDEX = torch.tensor([0, 2, 2, 1])


def x() -> torch.Tensor:
    return torch.arange(12.0).view(4, 3).requires_grad_()


def ways(call: Call) -> set[str]:
    value = x()
    with Watched() as watched, torch.no_grad():
        return set(watched.way_to(call(value)))


def gradient_ways(call: Call) -> set[str]:
    value = x()
    with Watched() as watched:
        (gradient,) = torch.autograd.grad(call(value).sum(), value)
        return set(watched.way_to(gradient))


FORWARD: dict[str, tuple[Call, set[str]]] = {
    "an element at a time": (torch.exp, {"elementwise"}),
    "moved alone": (lambda x: x.t().contiguous().relu().gather(0, INDEX[:3, None]), set()),
    "a sum": (lambda x: x.sum(0), {"reduction"}),
    "a product of matrices": (lambda x: x @ x.t(), {"contraction"}),
    "a convolution": (lambda x: F.conv1d(x[None], x[:, :, None].expand(4, 3, 4).transpose(1, 2)), {"contraction"}),
    "into indexed places": (lambda x: torch.zeros(5, 3).index_add(0, INDEX, x), {"scatter_add"}),
    "an index that is written to": (lambda x: torch.zeros(5, 3).index_put((INDEX,), x), set()),
    "an index that is added to": (lambda x: torch.zeros(5, 3).index_put((INDEX,), x, accumulate=True), {"scatter_add"}),
    "a scatter that multiplies": (
        lambda x: torch.ones(4, 3).scatter(0, INDEX[:, None], x, reduce="multiply"),
        {"scatter_add"},
    ),
    "drawn": (lambda x: F.dropout(x, 0.5), {"rng", "elementwise"}),
    "one after the other": (lambda x: (x @ x.t()).sin().sum(), {"contraction", "elementwise", "reduction"}),
    "written in place through a view": (lambda x: _written(x), {"scatter_add", "elementwise"}),
}


def _written(x: torch.Tensor) -> torch.Tensor:
    held = torch.zeros(4, 3)
    held[1:].index_add_(0, INDEX, x.exp())
    return held


@pytest.mark.parametrize("name", FORWARD)
def test_what_a_result_was_made_by_is_known(name: str) -> None:
    call, wanted = FORWARD[name]
    assert ways(call) == wanted


def test_one_output_s_way_is_not_another_s() -> None:
    value = x()
    with Watched() as watched, torch.no_grad():
        total, product = value.sum(0), value * 2
        assert (watched.way_to(total), watched.way_to(product)) == ({"reduction"}, {"elementwise"})


def test_gradients_of_what_selects_are_sums_into_places() -> None:
    assert "scatter_add" in gradient_ways(lambda x: F.embedding(INDEX, x))
    assert "scatter_add" in gradient_ways(lambda x: x[INDEX])
    assert "scatter_add" in gradient_ways(lambda x: F.max_pool1d(x[None], 2))
    assert "scatter_add" in gradient_ways(lambda x: x.gather(0, INDEX[:3, None]))
    assert "scatter_add" not in gradient_ways(lambda x: x.exp() @ x.t())


def test_memory_that_is_used_again_brings_no_class_along() -> None:
    with Watched() as watched, torch.no_grad():
        for _ in range(20):
            assert not watched.way_to(torch.tensor([1.0, 2.0]))
            assert watched.way_to(torch.zeros(2).exp().cumsum(0)) == {"elementwise", "reduction"}
