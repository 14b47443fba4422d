"""The fixture ``certify`` in a test of one's own. Run it: ``pytest examples/certify_pytest``.

A test that fails prints what is wrong, and the command that shows it again.
"""

import pytest
import torch
from torch import nn

pytest_plugins = ["tensorfarm.gate.pytest_plugin"]


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_compiled_model_means_the_same(certify, model: nn.Module, backend: str) -> None:
    certify(model, torch.compile(model, backend=backend), (torch.randn(5, 6),), level="quick")
