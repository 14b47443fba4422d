"""What a graph is known by: counts that physics would give, the same for the same computation."""

import json
import math
from collections.abc import Callable

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tensorfarm.contract.capture import captured
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec
from tensorfarm.cost_model.features import Features, describe, features_of_lowered, features_of_program
from tensorfarm.cost_model.work import Work, WorkKind


def rows(features: Features, kind: WorkKind) -> list[Work]:
    return [work for work, count in features.ops for _ in range(count) if work.kind is kind]


def of_module(module: nn.Module, *inputs: torch.Tensor) -> Graph:
    return captured("test", torch.export.export(module, inputs, strict=False)).graph


def test_a_product_counts_two_operations_for_each_multiplication(layer: Callable[..., Graph]) -> None:
    (product,) = rows(describe(layer(32), "inference"), WorkKind.GEMM)
    assert product.flops == 2 * 32**3
    assert product.bytes_moved == 3 * 32 * 32 * 4
    assert product.grain == 32


def test_training_adds_one_product_for_each_operand_that_wants_a_gradient(layer: Callable[..., Graph]) -> None:
    assert len(rows(describe(layer(), "training"), WorkKind.GEMM)) == 2


def test_names_leave_no_trace_in_features(layer: Callable[..., Graph]) -> None:
    assert describe(layer(prefix="other_"), "training").hash == describe(layer(), "training").hash
    assert describe(layer(65), "training").hash != describe(layer(), "training").hash


def test_pointwise_operators_fuse_and_move_less_than_one_by_one(layer: Callable[..., Graph]) -> None:
    features = describe(layer(), "inference")
    fused = [work for work, _ in features.groups if work.kind is WorkKind.POINTWISE]
    assert [work.ops for work in fused] == [2]
    assert sum(work.bytes_moved for work in fused) < sum(
        work.bytes_moved for work in rows(features, WorkKind.POINTWISE)
    )


def test_no_group_waits_for_itself_across_a_product() -> None:
    class Residual(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2 + 1) @ x + (x * 2 + 1)

    groups = describe(of_module(Residual(), torch.ones(8, 8)), "inference").groups
    kinds = [work.kind for work, count in groups for _ in range(count)]
    assert kinds.count(WorkKind.GEMM) == 1
    assert kinds.count(WorkKind.POINTWISE) >= 2


def test_views_move_nothing_and_an_embedding_reads_what_it_picks() -> None:
    class Picks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10_000, 16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.table(ids).transpose(0, 1)

    features = describe(of_module(Picks(), torch.zeros(4, dtype=torch.int64)), "inference")
    (picked,) = rows(features, WorkKind.PICK)
    assert picked.bytes_read <= 2 * 4 * 16 * 4
    assert all(work.bytes_moved == 0 for work in rows(features, WorkKind.VIEW))
    table = describe(of_module(Picks(), torch.zeros(4, dtype=torch.int64)), "training")
    assert any(work.bytes_written == 10_000 * 16 * 4 for work in rows(table, WorkKind.PICK))


def test_convolution_and_attention_count_their_products() -> None:
    graph = of_module(nn.Conv2d(8, 16, 3, groups=2), torch.ones(1, 8, 10, 10))
    (filtered,) = rows(describe(graph, "inference"), WorkKind.CONVOLUTION)
    assert filtered.flops == 2 * 16 * 8 * 8 * 4 * 9
    assert filtered.grain == 4

    class Mixes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(x, x, x)

    (mixed,) = rows(describe(of_module(Mixes(), torch.ones(2, 3, 5, 8)), "inference"), WorkKind.ATTENTION)
    assert mixed.flops == 4 * 2 * 3 * 5 * 5 * 8


def test_a_read_against_the_order_is_counted_as_strided() -> None:
    class Turns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.t().contiguous()

    graph = of_module(Turns(), torch.ones(16, 16))
    assert sum(work.strided_bytes for work, _ in describe(graph, "inference").ops) == 16 * 16 * 4


def test_features_travel_through_json_in_both_events(layer: Callable[..., Graph]) -> None:
    for mode in ("inference", "training"):
        features = describe(layer(), mode)
        captured_form = json.loads(json.dumps(features_of_program(layer(), mode)))
        lowered_form = json.loads(json.dumps(features_of_lowered(layer(), mode, 3)))
        assert Features.from_json(captured_form["captured"]) == features
        assert Features.from_json(lowered_form["lowered"]) == features
        assert lowered_form["kernels"] == 3


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_larger_layer_never_has_less_work(small: int, more: int) -> None:
    less, larger = (describe(_square(width), "training") for width in (small, small + more))
    for count in (lambda work: work.flops, lambda work: work.bytes_moved):
        assert sum(count(work) * n for work, n in less.ops) <= sum(count(work) * n for work, n in larger.ops)
    assert math.isfinite(larger.footprint_bytes)


def _square(width: int) -> Graph:
    shape = TensorSpec.of(torch.empty((width, width), device="meta"))
    node = Node("p", "aten.mm.default", (Ref("x"), Ref("x")), results=(shape,))
    return Graph((Input("x", shape, requires_grad=True),), {}, {"p": node}, (Output(OutputKind.USER, Ref("p")),))
