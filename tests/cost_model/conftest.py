"""A machine that was not measured but made up, and graphs built by hand: what a cost model is tested on."""

from collections.abc import Callable

import pytest
import torch

from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.cost_model.work import Work, WorkKind

FUNCTIONS = ("exp", "log", "tanh", "erf", "sigmoid", "sin", "sqrt", "pow", "divide", "softmax", "layer_norm")
KINDS = ("pw", "gemm", "conv", "attn", "norm", "red", "pick", "move", "view", "kernel", "step")


@pytest.fixture
def peaks() -> Peaks:
    return Peaks(
        device="cpu",
        threads=1,
        torch="2",
        bandwidth=((1e4, 1e11), (1e7, 5e10), (1e9, 1e10)),
        turned=((1e4, 1e10), (1e7, 5e9)),
        products=((1, 1e10), (64, 1e11)),
        convolutions=((1, 1e10), (64, 8e10)),
        functions=dict.fromkeys(FUNCTIONS, 1e9),
        dispatch_seconds=dict.fromkeys(KINDS, 1e-6),
    )


def spec(*shape: int) -> TensorSpec:
    return TensorSpec.of(torch.empty(shape, device="meta"))


@pytest.fixture
def layer() -> Callable[..., Graph]:
    """``relu(x @ weight) + x`` for a square layer of any width, with a trained weight."""

    def made(width: int = 64, prefix: str = "") -> Graph:
        square = spec(width, width)
        given, weight, product, positive, total = (f"{prefix}{name}" for name in "xwprt")
        nodes = (
            Node(product, "aten.mm.default", (Ref(given), Ref(weight)), results=(square,)),
            Node(positive, "aten.relu.default", (Ref(product),), results=(square,)),
            Node(total, "aten.add.Tensor", (Ref(positive), Ref(given)), results=(square,)),
        )
        return Graph(
            (Input(given, square),),
            {weight: Weight(weight, WeightKind.PARAMETER, "weight", square, "0" * 64, requires_grad=True)},
            {node.name: node for node in nodes},
            (Output(OutputKind.USER, Ref(total)),),
        )

    return made


@pytest.fixture
def moving() -> Callable[..., Features]:
    """Features of ``count`` pointwise operators that move so many bytes each."""

    def made(size: int, count: int = 1, flops: int = 0) -> Features:
        rows = [(Work(WorkKind.POINTWISE, 1, 0, size, size), count)]
        if flops:
            rows.append((Work(WorkKind.GEMM, 1, flops, size, size, grain=64), count))
        return Features("inference", count, size, tuple(sorted(rows)), tuple(sorted(rows)))

    return made
