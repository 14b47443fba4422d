"""Programs of the zoo, captured once a session, and the way to run a graph forward and backward."""

import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.program import Program

sys.path.insert(0, str(Path(__file__).parent))

from inductor_workshop import Compiled, compiled, mlp

ZOO = (
    "language:bert",
    "language:gpt2",
    "language:llama",
    "language:t5",
    "vision:vit",
    "vision:convnet",
    "speech:whisper_encoder",
    "operators:suite",
)


@cache
def captured(name: str) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return capture(f"tensorfarm.farm.zoo.{name}")


@pytest.fixture(params=ZOO)
def model(request: pytest.FixtureRequest) -> Program:
    """Each program of the zoo."""
    return captured(request.param)


@pytest.fixture
def zoo() -> Callable[[str], Program]:
    return captured


@pytest.fixture
def run() -> Callable[..., Any]:
    return forward_and_backward


def forward_and_backward(
    graph: Graph, weights: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor | None], list[torch.Tensor]]:
    """Outputs, gradients of every trained value by name, and inputs and buffers afterwards."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = executable(graph, {name: tensor.clone() for name, tensor in weights.items()})
    flags = {item.name: item.requires_grad for item in graph.inputs}
    given = [tensor.clone().requires_grad_(flags[name]) for name, tensor in inputs.items()]
    outputs = [value for value in module(*given) if isinstance(value, torch.Tensor)]
    differentiable = [value for value in outputs if value.requires_grad]
    trained = [value for value in given if value.requires_grad]
    trained += [value for _, value in sorted(module.named_parameters()) if value.requires_grad]
    gradients: list[torch.Tensor | None] = []
    if differentiable and trained:
        seeds = torch.Generator().manual_seed(1)
        cotangents = [
            torch.randn(value.shape, generator=seeds, dtype=torch.float64).to(value.dtype) for value in differentiable
        ]
        gradients = list(torch.autograd.grad(differentiable, trained, cotangents, allow_unused=True))
    # Constants are the compiler's to add: only what the program had is compared.
    kept = [tensor for name, tensor in module.named_buffers() if graph.weights[name].kind.value == "buffer"]
    return outputs, gradients, [*(value.detach() for value in given), *kept]


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A request to compile a program, saved in the test's folder."""

    def made(program: Program, pipeline: str, **changed: Any) -> dict[str, Any]:
        path = tmp_path / f"{program.semantic_hash[:12]}.program"
        if not path.exists():
            program.save(path)
        request = {
            "program": str(path),
            "program_sha256": sha256_file(path),
            "candidate_id": "c0ffee" * 8,
            "semantic_hash": program.semantic_hash,
            "mode": "training",
            "pipeline": pipeline,
            "target": "cpu/any",
            "toolchain": {"torch": torch.__version__},
            "built": str(tmp_path / "built"),
            "python_path": [],
            "threads": 1,
        }
        return {**request, **changed}

    return made


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A small network compiled by Inductor for training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return compiled(tmp_path_factory.mktemp("training"), mlp(), "training")
