"""The oracle: everything in float64, composites spelled out, and limits that follow the condition number."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gate_workshop import contract, program
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.gate.calling import Values, evaluate
from tensorfarm.gate.expand import Expanded
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.noise import Noise, Perturbed
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import ModuleCallee, reference_of_program
from tensorfarm.gate.trial import Call, Derivative, Trial
from tensorfarm.gate.widen import Widened, wide_defaults

UNIT = 2.0**-24


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class _NarrowResults(TorchDispatchMode):
    """Notes each operator that gives a narrower floating result than float64."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point() and result.dtype is not torch.float64:
            self.seen.add(str(func))
        return result


def called(callee: ModuleCallee, leaves: dict[str, Any]) -> Values:
    values = Values()
    evaluate(callee, leaves, Derivative.NONE, lambda _: {}, values)
    return values


def expected_of(name: str) -> Expectation:
    """What the oracle says of a program's example inputs."""
    made = program(name)
    trial = Trial("example", (Call(made.inputs, Derivative.VJP),))
    return expectations(reference_of_program(made), [trial], contract(), 0)["example"][0]


@pytest.mark.parametrize("widened", [True, False])
def test_doubling_the_module_alone_leaves_narrow_intermediates(widened: bool) -> None:
    casting = program("casting")
    reference = reference_of_program(casting)
    reference.widen()
    leaves, callee = reference.arguments(casting.inputs, {}, wide=True), reference.fresh("", changes=False)
    with _NarrowResults() as watch, wide_defaults():
        if widened:
            with Widened():
                called(callee, leaves)
        else:
            with pytest.raises(RuntimeError, match="overflow"):
                called(callee, leaves)
    assert bool(watch.seen) is not widened


COMPOSITES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu operator": lambda x: torch.ops.aten.gelu.default(x),
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softmax": lambda x: F.softmax(x, dim=-1) + x.softmax(1) + torch.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1) + torch.log_softmax(x, 1),
    "logsumexp": lambda x: torch.logsumexp(x, (1, 2)) + x.logsumexp(2).sum(1),
    "layer_norm": lambda x: F.layer_norm(x, (4, 8), x[0].detach() * 2, x[1].detach()),
    "rms_norm": lambda x: F.rms_norm(x, (8,), x[0, 0].detach(), 1e-6),
    "group_norm": lambda x: F.group_norm(x, 2, x[0, :, 0].detach(), x[1, :, 0].detach()),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
    "batch_norm eval": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4) * 2),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None].flip(1), x[None] * 2, is_causal=True),
    "attention mask": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.eye(4).bool(), scale=0.3),
    "attention bias": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.eye(4)),
    "attention, row masked": lambda x: F.scaled_dot_product_attention(x, x, x, torch.ones(4, 4).tril(-1).bool()),
    "attention, grouped": lambda x: F.scaled_dot_product_attention(x[None], x[None, :3], x[None, 3:], enable_gqa=True),
    "cross_entropy": lambda x: F.cross_entropy(x[:, :, 0], torch.tensor([0, 3, 1, -100, 2, 0])),
    "cross_entropy smooth": lambda x: F.cross_entropy(
        x[:, :, 0], torch.tensor([0, 3, 1, 1, 2, 0]), label_smoothing=0.1
    ),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_spelled_out_composite_computes_what_the_operator_does(name: str) -> None:
    call = COMPOSITES[name]
    with wide_defaults():
        x, y = (normal(6, 4, 8).requires_grad_() for _ in range(2))
        wanted = call(x)
        with Expanded(torch.float32):
            seen = call(y)
        seeds = torch.ones_like(wanted).cumsum(-1) if wanted.dim() else torch.ones_like(wanted)
        torch.testing.assert_close(seen, wanted, rtol=1e-12, atol=1e-12)
        # Loose: torch multiplies by a float32 sixth in the float64 gradient of hardsigmoid.
        gradients = [torch.autograd.grad(value, leaf, seeds)[0] for value, leaf in ((seen, y), (wanted, x))]
        torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-7)


def test_a_composite_inside_a_python_composite_is_spelled_out_too() -> None:
    seen: set[str] = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    module, inputs = torch.nn.MultiheadAttention(8, 2).double(), [normal(3, 2, 8)] * 3
    with Watch(), Expanded(torch.float32):
        module(*inputs)
    assert "exp" in seen
    assert not {name for name in seen if "attention" in name or "softmax" in name}


def spread(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, samples: int = 30) -> torch.Tensor:
    noise, exact = Noise(UNIT, 0), call(x)
    squares = torch.zeros_like(exact)
    with Expanded(torch.float32):
        for sample in range(samples):
            noise.restart(sample)
            with Perturbed(noise):
                squares += (call(x) - exact).square()
    return (squares / samples).sqrt()


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 1e6))
def test_the_spread_carries_the_condition_number(offset: float) -> None:
    """``(x + o) - o`` loses what the sum rounds: about ``u * o``, whatever is left."""
    seen = spread(lambda x: (x + offset) - offset, normal(2000)).square().mean().sqrt()
    assert 0.3 * UNIT * offset < float(seen) < 3 * UNIT * (offset + 3)


def test_moving_data_adds_no_noise() -> None:
    moved = spread(lambda x: x.t().reshape(8, -1).flip(0)[:, ::2].relu().amax(1), normal(16, 32))
    assert float(moved.max()) == 0.0


def test_resampling_errs_by_its_coordinates() -> None:
    def resampled(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(255, 255), mode="bilinear")

    x = normal(1, 1, 97, 97).float()
    error = (resampled(x).double() - resampled(x.double())).abs()
    beyond = error > 10 * spread(resampled, x.double(), 12)
    assert float(beyond.double().mean()) < 0.05


def test_noise_is_drawn_anew_in_a_tensor_larger_than_the_pool() -> None:
    seen = spread(lambda x: x * 3, torch.ones(700, 400, dtype=torch.float64), samples=4)
    assert float((seen == 0).double().mean()) < 1e-3
    assert float(seen.square().mean().sqrt()) == pytest.approx(3 * UNIT, rel=0.05)


@pytest.mark.parametrize("formula", ["erf", "tanh"])
def test_an_honest_gelu_is_within_the_spelled_out_budget_and_the_tanh_approximation_is_not(formula: str) -> None:
    x = normal(4096) * 3
    exact = F.gelu(x)
    limit = 4 * UNIT * exact.abs() + 10 * spread(F.gelu, x, 12)
    narrow = x.float()
    honest = narrow * 0.5 * (1 + torch.erf(narrow * math.sqrt(0.5)))
    seen = honest if formula == "erf" else F.gelu(narrow, approximate="tanh")
    wide = F.gelu(narrow.double())
    beyond = int(((seen.double() - wide).abs() > limit).sum())
    assert beyond == 0 if formula == "erf" else beyond > 1000


def test_two_runs_of_the_oracle_are_equal_and_leave_the_process_as_it_was() -> None:
    default = torch.get_default_dtype()
    one, two = (expected_of("casting") for _ in range(2))
    assert one.exact.keys() == two.exact.keys()
    assert any(key.startswith("gradient:") for key in one.exact)
    for key, value in one.exact.items():
        assert torch.equal(value, two.exact[key])
        assert torch.equal(one.sigma[key], two.sigma[key])
    assert (torch.get_default_dtype(), F.softmax.__module__) == (default, "torch.nn.functional")


def test_a_reference_is_left_as_it_was_found_and_carries_the_programs_weights() -> None:
    batch_norm = program("batch_norm")
    reference = reference_of_program(batch_norm)
    runs = [
        called(reference.fresh("", changes=False), reference.arguments(batch_norm.inputs, {}, wide=False))
        for _ in range(2)
    ]
    assert torch.equal(runs[0].outputs[0], runs[1].outputs[0])
    first, last = (reference.fresh("", changes=False).buffers["norm.running_mean"].clone() for _ in range(2))
    name = next(name for name, weight in batch_norm.graph.weights.items() if weight.target == "norm.running_mean")
    assert torch.equal(first, batch_norm.weights[name])
    assert torch.equal(first, last)
    expected = expected_of("batch_norm")
    assert "buffer:norm.running_mean" in expected.changed
    assert not torch.equal(expected.eager.tensors["buffer:norm.running_mean"], first)


def test_trials_of_equal_values_share_the_oracles_runs() -> None:
    made = program("mlp")
    other = {name: value.t().contiguous().t() if value.dim() == 2 else value for name, value in made.inputs.items()}
    trials = [Trial("example", (Call(made.inputs),)), Trial("layout:transposed", (Call(other),), layout="transposed")]
    found = expectations(reference_of_program(made), trials, contract(), 0)
    first, second = (found[trial.name][0].exact["output:0"] for trial in trials)
    assert first.data_ptr() == second.data_ptr()
