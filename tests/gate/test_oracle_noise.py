"""What the noise knows of a program: its dtypes, its steps, its zeros; and that sigma is what rounding does."""

import math
from collections.abc import Callable

import numpy
import pytest
import torch
import torch.nn.functional as F

from tensorfarm.contract.numerics import Budget
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement
from tensorfarm.gate.expand import Expanded
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.noise import POOL_SIZE, Noise, Perturbed
from tensorfarm.gate.recorded import Recording
from tensorfarm.gate.rounding import Rounding, is_step, rounding_of
from tensorfarm.gate.second_oracle import Reversed, tie_break
from tensorfarm.gate.spread import Spread, draws
from tensorfarm.gate.widen import Widened, wide_defaults

HALF, SINGLE = 2.0**-8, 2.0**-24
BUDGET = Budget(c=4, k=10)
Call = Callable[..., torch.Tensor]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def expected_of(call: Call, *leaves: torch.Tensor, samples: int = 12) -> Expected:
    """The whole oracle of one output: eager, exact, and sigma with the program's own dtypes and steps."""
    with Expanded(leaves[0].dtype), Recording() as recording:
        call(*leaves)
    known = recording.recorded()
    wide = [leaf.double() if leaf.is_floating_point() else leaf for leaf in leaves]
    noise = Noise(max((step.roundoff for step in known.steps), default=0.0) or SINGLE, 0, known)
    with Expanded(leaves[0].dtype), wide_defaults():
        with Widened() as mode:
            exact = call(*wide)
        spread = Spread({"y": exact})
        for draw in draws(samples, 0, mode.jumps):
            noise.restart(draw.seed, draw.amplification, draw.zero)
            with Perturbed(noise):
                spread.add({"y": call(*wide)}, draw)
    return Expected(call(*leaves), exact, spread.sigma()["y"])


def judged(seen: torch.Tensor, wanted: Expected) -> Finding:
    return agreement("forward", "output 0", seen, wanted, BUDGET, 1)


def sigma_of(wanted: Expected) -> torch.Tensor:
    assert wanted.sigma is not None
    return wanted.sigma


def test_each_operator_of_a_program_of_two_dtypes_errs_by_its_own() -> None:
    def call(x: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.sin(x), torch.sin(coarse).to(x.dtype)])

    x = normal(4000)
    wanted = expected_of(call, x, x.bfloat16())
    error = (sigma_of(wanted) / wanted.exact.abs()).square().reshape(2, -1).mean(-1).sqrt()
    assert float(error[0]) == pytest.approx(SINGLE, rel=0.1)
    assert float(error[1]) == pytest.approx(HALF, rel=0.1)


def test_a_cast_errs_where_the_wide_run_has_none() -> None:
    def call(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return (x @ weight).to(x.dtype) * 3

    wanted = expected_of(call, normal(32, 48), normal(48, 16, seed=1))
    relative = float(sigma_of(wanted).square().mean().sqrt() / wanted.exact.square().mean().sqrt())
    assert HALF < relative < 6 * HALF
    assert judged(wanted.eager, wanted).n_bad == 0


def test_a_faulty_single_precision_part_of_a_mixed_program_is_seen() -> None:
    def call(x: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + 0 * (coarse @ coarse).sum().to(x.dtype)

    wanted = expected_of(call, normal(256), normal(8, 8).bfloat16())
    assert judged(wanted.eager, wanted).status is Status.PASS
    assert judged(wanted.eager * (1 + 1e-5), wanted).status is Status.FAIL


def test_a_replay_that_meets_another_operator_falls_back_to_the_coarsest() -> None:
    with Recording() as recording:
        normal(3).mul(2).bfloat16().add(1)
    replay = recording.recorded().replay()
    assert [step.roundoff for step in recording.steps] == [SINGLE, HALF]
    ops = torch.ops.aten
    found = [replay.step(op) for op in (ops.mul.Tensor, ops.sub.Tensor, ops.add.Tensor)]
    assert found[0] is not None
    assert (found[0].roundoff, found[1:]) == (SINGLE, [None, None])


STEPS: dict[str, Call] = {
    "round": lambda x: (x * 255).round(),
    "floor_divide": lambda x: (x * 7) // 0.1,
    "remainder": lambda x: torch.remainder(x * 7, 0.1),
    "comparison": lambda x: torch.where(x * 3 > 0.3, 1.0, -1.0).to(x.dtype),
    "cast": lambda x: (x * 255).to(torch.int32),
    "index": lambda x: (x.view(-1, 2) * 3).argmax(-1),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_value_that_lies_at_a_step_is_not_required_and_a_wrong_one_elsewhere_is(name: str) -> None:
    """Inputs moved by a few roundoffs stand for an honest subject that rounds on the other side of a step."""
    x = torch.cat([torch.linspace(0.01, 1, 3000), torch.arange(1, 500) / 510, torch.arange(1, 70) / 70])
    x = torch.cat([x, x[: x.numel() % 2]])
    wanted = expected_of(STEPS[name], x)
    other = STEPS[name](x * (1 + 2 * 2.0**-23))
    assert not torch.equal(other, wanted.eager) or name == "index"
    assert judged(other, wanted).n_bad == 0
    wrong = wanted.eager.clone()
    wrong[1001] = wrong[1001] + 1
    assert judged(wrong, wanted).status is Status.FAIL


def test_a_program_without_steps_needs_no_amplified_runs() -> None:
    with Widened() as smooth:
        F.gelu(normal(4, 4)).softmax(-1).clamp(0, 1).relu().amax(-1)
    with Widened() as stepped:
        normal(4, 4).floor()
    assert (smooth.jumps, stepped.jumps) == (False, True)
    assert [len(list(draws(12, 0, jumps))) for jumps in (False, True)] == [12, 16]


def test_the_sign_of_a_zero_that_comes_of_a_sum_is_not_certain_and_that_of_a_product_is() -> None:
    rows = torch.zeros(2, 3)
    assert float(sigma_of(expected_of(lambda x: x @ torch.ones(3, 2).to(x.dtype), rows)).min()) > 0
    assert float(sigma_of(expected_of(lambda x: x * -1.0, rows)).max()) == 0


def test_a_value_that_noise_makes_special_has_an_infinite_spread() -> None:
    wanted = expected_of(lambda x: torch.sqrt((x * 3) / 3 - x), normal(64))
    assert bool(sigma_of(wanted).isinf().all())
    assert judged(wanted.eager, wanted).status is Status.UNDECIDABLE


@pytest.mark.parametrize("shape", [(3, 5), (POOL_SIZE * 2 + 3,), (7, POOL_SIZE // 2)])
@pytest.mark.parametrize("turned", [False, True])
def test_operands_and_results_are_perturbed_alike_in_any_layout_and_size(shape: tuple[int, ...], turned: bool) -> None:
    noise = Noise(1e-3, 0)
    value = torch.ones(shape, dtype=torch.float64)
    value = value.t() if turned and value.dim() > 1 else value
    copied = noise.perturbed(value, 4)
    noise.perturb(value, 4)
    for made in (copied, value):
        assert made.stride() == value.stride()
        spread = float((made - 1).square().mean().sqrt())
        assert spread == pytest.approx(2e-3, rel=0.01 if value.numel() > 100 else 0.5)


def test_noise_comes_to_what_an_operator_writes_and_to_no_operand() -> None:
    x, out = torch.ones(50, dtype=torch.float64), torch.empty(50, dtype=torch.float64)
    mean, var = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    with Perturbed(Noise(1e-3, 0)):
        torch.add(x, 1, out=out)
        normed = torch.ops.aten._native_batch_norm_legit(x.view(10, 5), None, None, mean, var, True, 0.1, 1e-5)[0]
    assert torch.equal(x, torch.ones(50, dtype=torch.float64))
    assert len(out.unique()) == 50
    assert normed.abs().max() > 0
    assert len(mean.unique()) == 5


def test_a_scaled_second_operand_that_cancels_errs_by_its_product() -> None:
    x = normal(2000)
    wanted = expected_of(lambda x: torch.sub(x, x / 3, alpha=3), x)
    assert float(sigma_of(wanted).square().mean().sqrt()) > 0.5 * SINGLE
    assert judged(torch.zeros_like(x), wanted).status is not Status.FAIL


def test_an_expanded_operand_errs_in_each_of_its_elements() -> None:
    made = Noise(1e-3, 0).perturbed(torch.ones(1, dtype=torch.float64).expand(1000), 1)
    assert len(made.unique()) > 900


def test_amplified_noise_of_opposite_signs_is_the_same_noise() -> None:
    noise, value = Noise(1e-3, 0), torch.ones(1000, dtype=torch.float64)
    made: list[torch.Tensor] = []
    for amplification in (10.0, -10.0, 1.0):
        noise.restart(7, amplification)
        made.append(noise.perturbed(value, 1) - 1)
    assert torch.allclose(made[0], -made[1], rtol=1e-9)
    assert torch.allclose(made[0], 10 * made[2], rtol=1e-9)


def test_a_float64_program_is_judged_by_the_noise_of_float64() -> None:
    x, weight = normal(64, 300).double(), normal(300, 20, seed=1).double()
    wanted = expected_of(lambda x, weight: torch.tanh(x @ weight / 17).sum(0), x, weight)
    other = torch.tanh(x.flip(1) @ weight.flip(0) / 17).flip(0).sum(0)
    assert judged(other, wanted).status is Status.PASS
    assert judged(other * (1 + 1e-13), wanted).status is Status.FAIL


def test_no_operator_named_exact_rounds() -> None:
    """The exact ones move or choose: float32 operands give the same in float64, bit by bit."""
    x, y = normal(6, 8), normal(6, 8, seed=1)
    calls: tuple[Call, ...] = (
        torch.relu,
        torch.abs,
        torch.neg,
        torch.floor,
        torch.frac,
        torch.sign,
        lambda x: torch.clamp(x, -0.5, 0.5),
        lambda x: torch.maximum(x, y.to(x.dtype)),
        lambda x: torch.copysign(x, y.to(x.dtype)),
        lambda x: F.hardtanh(x, -0.5, 0.25),
        lambda x: F.max_pool2d(x[None], 2),
        lambda x: x.cummax(1).values,
        lambda x: x.sort(-1).values,
        lambda x: x.unfold(1, 3, 1).contiguous(),
        lambda x: F.pad(x, (1, 2)),
        lambda x: x.roll(2, 1).tril(),
    )
    for call in calls:
        assert torch.equal(call(x).double(), call(x.double()))


def test_the_second_oracle_sums_the_other_way_and_says_how_exact_the_program_is() -> None:
    x, weight = normal(8, 500), normal(500, 4, seed=1)

    def call(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight.to(x.dtype)).sum(-1)

    with Reversed():
        second = call(x)
    wanted = Expected(call(x), call(x.double()))
    assert not torch.equal(second, wanted.eager)
    assert torch.allclose(second, wanted.eager, atol=1e-3)
    assert "both are nearer to float64 than the subject" in tie_break(wanted, wanted.eager + 1, second, (2,))
    assert "both are nearer to float64 than the subject" in tie_break(wanted, wanted.eager * torch.nan, second, (2,))
    assert "no more exact" in tie_break(wanted, second, second, (2,))
    assert not tie_break(wanted, second, None, (2,))


REVERSED: dict[str, Call] = {
    "mean of all": lambda x: x.mean(),
    "sum over one": lambda x: x.sum(1),
    "addmm": lambda x: F.linear(x, x[:5], x[0, :5]),
    "bmm": lambda x: x[None] @ x.t()[None],
    "conv": lambda x: F.conv1d(x[None], x[:4, :6, None].repeat(1, 2, 3)),
    "grouped": lambda x: F.conv1d(x[None], x[:4, :6, None], groups=2),
}


@pytest.mark.parametrize("name", REVERSED)
def test_summing_the_other_way_changes_no_meaning(name: str) -> None:
    x = normal(12, 12).double()
    with Reversed():
        seen = REVERSED[name](x)
    torch.testing.assert_close(seen, REVERSED[name](x), rtol=1e-12, atol=1e-12)


def test_a_long_sum_in_a_few_thousand_blocks_is_honest_and_one_by_one_it_is_not() -> None:
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(3))
    wanted = expected_of(lambda x: x.mean(-1, keepdim=True) * 2, x)
    blocked = x.view(2048, -1).cumsum(-1)[:, -1].sum().reshape(1) * (2 / x.numel())
    assert judged(blocked, wanted).status is Status.PASS
    one_by_one = float(numpy.cumsum(x.numpy(), dtype=numpy.float32)[-1])
    assert judged(torch.tensor([one_by_one * 2 / x.numel()]), wanted).status is Status.FAIL


@pytest.mark.parametrize("affine", [False, True])
def test_a_spelled_out_instance_norm_computes_what_the_operator_does(affine: bool) -> None:
    x = normal(2, 3, 4, 5).double()
    weight = normal(3).double() if affine else None
    calls: tuple[Call, ...] = (
        lambda x: F.instance_norm(x, weight=weight, bias=weight),
        lambda x: torch.ops.aten.instance_norm.default(x, weight, weight, None, None, True, 0.1, 1e-5, False),
        lambda x: F.instance_norm(x, torch.ones(3).double(), torch.ones(3).double(), use_input_stats=False),
    )
    for call in calls:
        with Expanded(torch.float32):
            seen = call(x)
        torch.testing.assert_close(seen, call(x), rtol=1e-12, atol=1e-12)


def test_operators_are_named_by_what_they_do() -> None:
    ops = torch.ops.aten
    assert rounding_of(ops.cumsum.default) is Rounding.REDUCES
    assert rounding_of(ops.unfold.default) is Rounding.EXACT
    assert rounding_of(ops.tan.default) is Rounding.ROUNDS
    assert rounding_of(ops.add_.Tensor) is Rounding.ROUNDS
    assert rounding_of(ops.index_add_.default) is Rounding.REDUCES
    assert rounding_of(ops.scatter_.src) is Rounding.EXACT
    assert rounding_of(ops.scatter_.reduce) is Rounding.ROUNDS
    assert is_step(ops.div.Tensor_mode)
    assert not is_step(ops.div.Tensor)
    assert math.isfinite(Noise(SINGLE, 0).roundoff)


@pytest.mark.parametrize("shape", [(5, 7), (3, POOL_SIZE)])
def test_a_run_without_noise_is_the_exact_one_bit_by_bit(shape: tuple[int, ...]) -> None:
    x = normal(*shape).double()
    noise = Noise(SINGLE, 0)
    noise.restart(3, 0.0)
    with Widened():
        exact = ((x - 1).exp() * 0.3).sum(1) + (x @ x.t()).tanh()[0]
    with Perturbed(noise):
        quiet = ((x - 1).exp() * 0.3).sum(1) + (x @ x.t()).tanh()[0]
    assert torch.equal(quiet, exact)


@pytest.mark.parametrize("beside", [1.0, 0.0, -1.0, math.nan, -math.inf])
def test_a_subnormal_number_is_found_beside_any_other(beside: float) -> None:
    value = torch.tensor([beside, 1e-40], dtype=torch.float64)
    with wide_defaults():
        Noise(SINGLE, 0).blur_subnormals(value)
    assert float(value[1]) != 1e-40


@pytest.mark.parametrize("shape", [(2, 3, 9, 9), (2, 3, 4, 5, 6), (2, 0, 9, 9), (0, 3, 9, 9)])
@pytest.mark.parametrize("last", [False, True])
def test_channels_are_summed_alike_wherever_they_lie_in_memory(shape: tuple[int, ...], last: bool) -> None:
    x = normal(*shape).double().requires_grad_()
    laid = x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x
    with Expanded(torch.float32):
        spelled = F.batch_norm(laid, None, None, training=True)
    plain = F.batch_norm(x.movedim(1, -1).reshape(-1, shape[1]), None, None, training=True) if x.numel() else None
    if plain is not None:
        torch.testing.assert_close(spelled.movedim(1, -1).reshape(-1, shape[1]), plain, rtol=1e-9, atol=1e-12)
        weights = normal(*shape, seed=1).double()
        (found,) = torch.autograd.grad((spelled * weights).sum(), x)
        (wanted,) = torch.autograd.grad((F.batch_norm(x, None, None, training=True) * weights).sum(), x)
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-10)
    else:
        assert spelled.shape == shape
