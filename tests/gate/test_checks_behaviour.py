"""Behaviour families: each lets the honest pass and finds the fault that is planted in a subject that really runs."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from gate_behaviour import ARTIFACT, COMPILED, Calls, failures, passes, run, statuses
from gate_evidence import evidence_of
from torch import nn
from torch.nn import functional

from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.checks import (
    capture,
    determinism,
    devices,
    errors,
    exact_integers,
    liveness,
    metadata,
    mutation,
    process_state,
    rng,
    second_call,
    toolchains,
)
from tensorfarm.gate.setting import Level
from tensorfarm.gate.verdict import verdict_of

LEVELS = {"devices": ["cpu/default", "cpu/avx2"]}
OWN_STREAM = {"rng.policy": "seeded_own_stream"}


class Net(nn.Module):
    """A parameterised child, a public number, a Python scalar as input, and an output that is a view of an input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner = nn.Linear(5, 7)
        self.gain = 0.75

    def forward(self, x: torch.Tensor, y: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inner(x).tanh() * self.gain + scale * y, x.t()


class Dropping(nn.Module):
    """Elementwise dropout of what is never zero itself."""

    def __init__(self, drop: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.drop = drop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(x.cosh())


def randn(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(11)).requires_grad_(grad)


def net_inputs() -> tuple[Any, ...]:
    return randn(3, 5, grad=True), randn(3, 7), 1.5


def dropout(x: torch.Tensor) -> torch.Tensor:
    return functional.dropout(x, 0.3)


EVERY = (metadata, mutation, errors, process_state, determinism, second_call, toolchains)


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.NAME)
def test_an_honest_subject_passes(check: ModuleType, mode: str) -> None:
    evidence = run(check, Net(), net_inputs(), mode=mode)
    assert passes(check.check(evidence)), failures(check.check(evidence))


@pytest.mark.parametrize(
    ("check", "module", "changes"),
    [(check, Net, None) for check in EVERY]
    + [(devices, Net, LEVELS), (rng, lambda: Dropping(dropout), None), (rng, lambda: Dropping(dropout), OWN_STREAM)],
)
def test_the_planted_canary_of_every_family_is_found(
    check: ModuleType, module: Callable[[], nn.Module], changes: dict[str, Any] | None
) -> None:
    args = net_inputs() if module is Net else (randn(40, 50, grad=True),)
    evidence = run(check, module(), args, mode="training", changes=changes)
    assert not failures(check.check(evidence))
    planted = check.canary(evidence)
    assert planted is not None
    assert failures(check.check(planted))


# metadata


@pytest.mark.parametrize(
    ("eager", "subject", "word"),
    [
        (lambda x: x * 2, lambda x: (x * 2).double(), "dtype"),
        (lambda x: x.t() * 2, lambda x: (x.t() * 2).contiguous(), "strides"),
        (lambda x: x.sum(0), lambda x: x.sum(0, keepdim=True), "shape"),
        (lambda x: (x * 2, x + 1), lambda x: (x * 2,), "expected 2, seen 1"),
        (lambda x: (x * 2, x + 1), lambda x: [x * 2, x + 1], "expected them as"),
        (lambda x: (x * 2, 3), lambda x: (x * 2, 3.0), "expected 3, seen"),
        (lambda x: (x * 2, 3.0), lambda x: (x * 2, 3.1), "expected '0x"),
        (lambda x: x * 2, lambda x: (x * 2).detach(), "requires_grad"),
        (lambda x: x * 2, lambda x: (x * 2).detach().requires_grad_(), "is_leaf"),
    ],
)
def test_metadata_that_differs_is_a_failure(eager: Any, subject: Any, word: str) -> None:
    evidence = run(metadata, Calls(eager), (randn(3, 5, grad=True),), Calls(subject), mode="training")
    assert word in failures(metadata.check(evidence))[0]


def test_a_copy_of_an_input_need_not_be_a_leaf() -> None:
    evidence = run(metadata, Calls(lambda x: x), (randn(4, grad=True),), Calls(lambda x: x.clone()), mode="training")
    assert not failures(metadata.check(evidence))


def test_strides_of_an_axis_of_size_one_mean_nothing() -> None:
    subject = Calls(lambda x: (x * 2).as_strided((1, 5), (77, 1)))
    evidence = run(metadata, Calls(lambda x: x * 2), (randn(1, 5),), subject)
    assert passes(metadata.check(evidence))


# mutation and aliasing


def _writes_a_gap(x: torch.Tensor) -> torch.Tensor:
    torch.as_strided(x, (1,), (1,), 1).fill_(9.0)
    return x * 2


@pytest.mark.parametrize(
    ("eager", "subject", "word"),
    [
        (lambda x: x * 2, lambda x: x.mul_(2), "it was written to"),
        (lambda x: x * 2, _writes_a_gap, "it was written to"),
        (lambda x: x.mul_(2) + 1, lambda x: x * 2 + 1, "expected"),
        (lambda x: x.mul_(2) + 1, lambda x: _writes_a_gap(x.mul_(2)) * 0.5 + 1, "memory around it"),
        (lambda x: x + 0.0, lambda x: x, "shares memory with input"),
        (lambda x: (x * 2, x * 2), lambda x: (y := x * 2, y), "shares memory with output"),
    ],
)
def test_a_write_or_a_sharing_that_the_original_does_not_make_is_found(eager: Any, subject: Any, word: str) -> None:
    strided = randn(4, 10)[:, ::2]
    evidence = run(mutation, Calls(eager), (strided,), Calls(subject))
    assert any(word in message for message in failures(mutation.check(evidence)))
    assert not failures(mutation.check(run(mutation, Calls(eager), (strided,))))


def test_a_buffer_that_is_written_to_is_found() -> None:
    class Counting(nn.Module):
        def __init__(self, step: float) -> None:
            super().__init__()
            self.step = step
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("fixed", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1.0)
            self.fixed.add_(self.step)
            return x * 2

    evidence = run(mutation, Counting(0.0), (randn(3),), Counting(1.0))
    assert [message.split(":")[0] for message in failures(mutation.check(evidence))] == ["buffer fixed"]


class Average(nn.Module):
    """Keeps the mean of its rows; ``one_by_one`` as a running mean, which rounds on integers too."""

    def __init__(self, one_by_one: bool) -> None:
        super().__init__()
        self.one_by_one = one_by_one
        self.kept: torch.Tensor
        self.register_buffer("kept", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(0)
        if self.one_by_one:
            mean = torch.zeros_like(x[0])
            for count, row in enumerate(x, 1):
                mean = mean + (row - mean) / count
        self.kept.lerp_(mean.detach(), 0.1)
        return x * 2


def test_a_written_buffer_that_rounds_is_not_held_to_a_limit_where_its_spread_is_unknown() -> None:
    inputs = (randn(501, 5),)
    evidence = evidence_of([mutation, exact_integers], Average(False), inputs, Average(True), level=Level.QUICK)
    assert not failures(mutation.check(evidence))
    wrong = Average(False)
    wrong.forward = lambda x: x * 2  # forgets to write
    evidence = evidence_of([mutation, exact_integers], Average(False), inputs, wrong, level=Level.QUICK)
    assert failures(mutation.check(evidence))


def test_sharing_that_is_lost_is_no_fault() -> None:
    evidence = run(mutation, Calls(lambda x: (x, x.t())), (randn(3, 5),), Calls(lambda x: (x.clone(), x.t().clone())))
    assert passes(mutation.check(evidence))


def test_inputs_that_overlap_and_are_written_to_are_compared_by_value() -> None:
    storage = torch.arange(8.0)
    evidence = run(mutation, Calls(lambda x, y: x.mul_(1.1) + y), (storage[:4], storage[2:6]))
    assert passes(mutation.check(evidence))


# errors


def _refuses(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("not for me\nsecond line")


@pytest.mark.parametrize(
    ("eager", "subject", "facts", "good"),
    [
        (_refuses, lambda x: x * 2, COMPILED, False),
        (lambda x: x * 2, _refuses, COMPILED, False),
        (lambda x: x * 2, _refuses, ARTIFACT, False),
        (_refuses, _refuses, COMPILED, True),
    ],
)
def test_who_refuses_and_who_answers_must_agree(eager: Any, subject: Any, facts: Any, good: bool) -> None:
    found = errors.check(run(errors, Calls(eager), (randn(4),), Calls(subject), facts=facts))
    assert (Status.FAIL in statuses(found)) is not good
    assert not any("second line" in finding.message for finding in found)


def test_a_subject_of_fixed_shapes_may_refuse_another_shape_and_no_guarded_one_may() -> None:
    evidence = run(errors, Calls(lambda x: x * 2), (randn(4),), Calls(_refuses), facts=ARTIFACT)
    (trial,) = evidence.trials.values()
    other = replace(trial, calls=(replace(trial.calls[0], inputs={"args[0]": torch.ones(3)}),))
    evidence = replace(evidence, trials={"example": other})
    assert not failures(errors.check(evidence))
    guarded = replace(evidence, setting=replace(evidence.setting, facts=COMPILED))
    assert failures(errors.check(guarded))


class Unsupported(RuntimeError):
    """By the name of what a compiler raises that gives up."""


def _gives_up(x: torch.Tensor) -> torch.Tensor:
    raise Unsupported("no rule for mul\nsecond line")


def test_a_compiler_that_gives_up_on_the_example_leaves_it_undecided_and_names_the_cause() -> None:
    (given_up,) = errors.check(run(errors, Calls(lambda x: x * 2), (randn(4),), Calls(_gives_up)))
    assert given_up.status is Status.NOT_RUN
    assert given_up.required
    assert "no rule for mul; " in given_up.message
    assert "second line" not in given_up.message
    assert verdict_of([given_up], (errors.NAME,)).outcome is Outcome.UNDECIDED
    for original, expected in ((_refuses, Status.PASS), (lambda x: x * 2, Status.FAIL)):
        subject = _gives_up if original is _refuses else _refuses
        assert statuses(errors.check(run(errors, Calls(original), (randn(4),), Calls(subject)))) == {expected}


# process state


def _leaves(change: Callable[[], object]) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        change()
        return x * 2

    return call


@pytest.mark.parametrize(
    ("change", "undo", "setting"),
    [
        (lambda: torch.set_flush_denormal(True), lambda: torch.set_flush_denormal(False), "subnormals_torch"),
        (lambda: ctypes.CDLL(None).fesetround(0x800), lambda: ctypes.CDLL(None).fesetround(0), "rounding"),
        (
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
            "default_dtype",
        ),
        (lambda: torch.rand(3), lambda: None, "random_stream"),
        (
            lambda: torch.use_deterministic_algorithms(True),
            lambda: torch.use_deterministic_algorithms(False),
            "deterministic",
        ),
    ],
)
def test_a_state_that_is_left_changed_is_found(change: Any, undo: Any, setting: str) -> None:
    try:
        evidence = run(process_state, Calls(lambda x: x * 2), (randn(4),), Calls(_leaves(change)))
    finally:
        undo()
    assert setting in {finding.what for finding in process_state.check(evidence) if finding.status is Status.FAIL}


def test_a_program_that_draws_may_move_the_stream() -> None:
    assert passes(process_state.check(run(process_state, Dropping(dropout), (randn(30),))))


# determinism


class Unordered(nn.Module):
    """Adds in another order every second call, as atomic additions do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        parts = x.unbind(0)
        total = torch.zeros_like(parts[0])
        for part in parts if self.calls % 2 else parts[::-1]:
            total = total + part
        return total


class Ordered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)


def test_a_sum_in_another_order_is_found_where_bits_must_repeat() -> None:
    evidence = run(determinism, Ordered(), (randn(301, 5),), Unordered())
    assert failures(determinism.check(evidence))
    lenient = {"determinism.classes.reduction": "within_budget"}
    allowed = run(determinism, Ordered(), (randn(301, 5),), Unordered(), changes=lenient)
    assert passes(determinism.check(allowed))
    planted = determinism.canary(allowed)
    assert planted is not None
    assert failures(determinism.check(planted))
    for other in ("elementwise", "contraction", "scatter_add"):
        elsewhere = {f"determinism.classes.{other}": "within_budget"}
        assert failures(
            determinism.check(run(determinism, Ordered(), (randn(301, 5),), Unordered(), changes=elsewhere))
        )


class HalfProduct(nn.Module):
    """Products of half-precision factors, of which every second call takes the terms from the other end."""

    def __init__(self, unordered: bool = False) -> None:
        super().__init__()
        self.unordered = unordered
        self.calls = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        order = torch.arange(x.shape[1])
        if self.unordered and self.calls % 2:
            order = torch.cat([order[::2], order[1::2]])
        total = torch.zeros(x.shape[0], y.shape[1])
        for number in order.tolist():
            total = total + x[:, number, None].float() * y[number].float()
        return total.to(x.dtype)


def test_terms_that_cancel_show_another_order_that_half_precision_hides() -> None:
    inputs = (randn(17, 61).bfloat16(), randn(61, 13).bfloat16())
    for unordered in (False, True):
        evidence = run(determinism, HalfProduct(), inputs, HalfProduct(unordered))
        found = failures(determinism.check(evidence))
        assert bool(found) is unordered
        assert all("terms that cancel" in text for text in found)


class TwoSums(nn.Module):
    """A sum into indexed places in its own order, and a plain sum; which of the two a fault is in is told by a name."""

    def __init__(self, unordered: str = "") -> None:
        super().__init__()
        self.unordered = unordered
        self.calls = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        turned = x.flip(0) if self.calls % 2 else x
        scattered, summed = (turned if self.unordered == name else x for name in ("scattered", "summed"))
        places = torch.zeros(len(x), dtype=torch.int64)
        return torch.zeros(2, x.shape[1]).index_add(0, places, scattered), _one_by_one(summed)


def _one_by_one(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x[0])
    for part in x.unbind(0):
        total = total + part
    return total


def test_a_result_is_held_to_the_weakest_class_that_it_is_made_by() -> None:
    inputs = (randn(301, 5),)
    assert passes(determinism.check(run(determinism, TwoSums(), inputs)))
    scattered = run(determinism, TwoSums(), inputs, TwoSums("scattered"))
    assert passes(determinism.check(scattered))
    strict = {"determinism.classes.scatter_add": "bitwise_run_to_run"}
    found = failures(determinism.check(run(determinism, TwoSums(), inputs, TwoSums("scattered"), changes=strict)))
    assert found
    assert all("output 0" in message for message in found)
    found = failures(determinism.check(run(determinism, TwoSums(), inputs, TwoSums("summed"))))
    assert found
    assert all("output 1" in message for message in found)


def test_a_run_that_leaves_the_budget_is_found_though_bits_may_vary() -> None:
    class Races(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.calls += 1
            scattered, summed = TwoSums()(x)
            return scattered * (1.001 if self.calls == 2 else 1), summed

    assert failures(determinism.check(run(determinism, TwoSums(), (randn(301, 5),), Races())))


def test_a_process_that_gives_other_bits_and_a_thread_count_that_gives_other_values_are_found() -> None:
    evidence = run(determinism, Ordered(), (randn(301, 5),))
    for session, factor, found in (("process:2", 1 + 2**-22, 1), ("threads:4", 1 + 2**-23, 0), ("threads:4", 1.01, 1)):
        (seen,) = evidence.ran("example", session)
        moved = replace(seen, tensors={**seen.tensors, "output:0": seen.tensors["output:0"] * factor})
        said = determinism.check(evidence.with_seen("example", 0, moved, session))
        assert bool(failures(said)) == bool(found), (session, factor)


def test_a_step_counter_of_the_original_is_held_against_nobody() -> None:
    evidence = run(determinism, Unordered(), (randn(301, 5),))
    assert not failures(determinism.check(evidence))


# second call


class Stale:
    """A compiled module with a guard missing: what ``freeze`` reads is read once."""

    def __init__(self, module: nn.Module, freeze: Callable[[nn.Module], Callable[..., Any]]) -> None:
        self.frozen = freeze(module)

    def __call__(self, *args: Any) -> Any:
        return self.frozen(*args)


def _old_parameters(module: Any) -> Callable[..., Any]:
    weight, bias = module.inner.weight, module.inner.bias
    return lambda x, y, scale: (functional.linear(x, weight, bias).tanh() * module.gain + scale * y, x.t())


def _old_child(module: Any) -> Callable[..., Any]:
    return lambda x, y, scale: (module._modules["inner"](x).tanh() * module.gain + scale * y, x.t())


def _old_attribute(module: Any) -> Callable[..., Any]:
    gain = module.gain
    return lambda x, y, scale: (module.inner(x).tanh() * gain + scale * y, x.t())


def _old_literal(module: Any) -> Callable[..., Any]:
    return lambda x, y, scale: module(x, y, 1.5)


def _copied_parameters(module: Any) -> Callable[..., Any]:
    weight, bias = module.inner.weight.detach().clone(), module.inner.bias.detach().clone()
    return lambda x, y, scale: (functional.linear(x, weight, bias).tanh() * module.gain + scale * y, x.t())


def _old_strides(module: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, y: torch.Tensor, scale: float) -> Any:
        flat = torch.as_strided(y, (3, 7), (7, 1))
        return module(x, flat, scale)

    return call


def _no_gradient(module: Any) -> Callable[..., Any]:
    modes: list[bool] = []

    def call(x: torch.Tensor, y: torch.Tensor, scale: float) -> Any:
        modes.append(torch.is_grad_enabled())
        first, second = module(x, y, scale)
        return (first if modes[0] else first * 0.5 + first.detach() * 0.5), second

    return call


@pytest.mark.parametrize(
    ("freeze", "place"),
    [
        (_copied_parameters, "update_parameters"),
        (_old_parameters, "swap_parameters"),
        (_old_child, "shadow_attribute"),
        (_old_attribute, "change_attribute"),
        (_old_literal, "other literals"),
        (_old_strides, "other strides"),
        (_no_gradient, "gradients wanted"),
    ],
)
def test_a_missing_guard_shows_in_the_call_after_its_change(freeze: Any, place: str) -> None:
    evidence = run(
        second_call,
        Net(),
        net_inputs(),
        wrap=lambda module: Stale(module, freeze),
        mode="training",
        level=Level.FULL if place == "shadow_attribute" else Level.STANDARD,
    )
    assert place in failures(second_call.check(evidence))[0]


def test_inputs_that_start_to_alias_are_looked_at_anew() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + y

    def unaware(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        apart = y.clone()
        x.mul_(2)
        return x + apart

    evidence = run(second_call, Calls(program), (torch.ones(4), torch.ones(4)), Calls(unaware))
    assert "alias:" in failures(second_call.check(evidence))[0]


def test_a_subject_without_guards_is_called_twice_and_keeps_no_state() -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = x * 2 + self.last
            self.last = 1.0
            return result

    evidence = run(second_call, Calls(lambda x: x * 2), (randn(5),), Remembers(), facts=ARTIFACT)
    assert "other inputs" in failures(second_call.check(evidence))[0]


def test_a_later_call_that_raises_where_the_first_answered_is_a_fault_of_the_second_call() -> None:
    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.spent = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.spent:
                raise RuntimeError("expected size 4==8")
            self.spent = True
            return x * 2

    evidence = run(second_call, Calls(lambda x: x * 2), (randn(5),), Once())
    assert "has answered before" in failures(second_call.check(evidence))[0]


def test_an_ill_conditioned_program_is_not_called_stale_for_its_rounding() -> None:
    nearly_singular = torch.eye(4) + 1e4 * torch.ones(4, 4)
    moved = Calls(lambda x: torch.linalg.inv(x.double()).float())
    evidence = run(second_call, Calls(torch.linalg.inv), (nearly_singular,), moved, facts=ARTIFACT)
    assert not failures(second_call.check(evidence))


# random numbers


def _forgets_the_scale(x: torch.Tensor) -> torch.Tensor:
    return x * torch.bernoulli(torch.full_like(x, 0.7))


def _swaps_p(x: torch.Tensor) -> torch.Tensor:
    return functional.dropout(x, 0.7) * (0.3 / 0.7)


def _one_mask(x: torch.Tensor) -> torch.Tensor:
    mask = torch.bernoulli(torch.full_like(x, 0.7), generator=torch.Generator().manual_seed(1))
    return x * mask / 0.7


class Redrawn(torch.autograd.Function):
    """Draws a new mask in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.3)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return functional.dropout(gradients[0], 0.3)


def _own_stream(x: torch.Tensor) -> torch.Tensor:
    torch.rand(1)
    return x * torch.bernoulli(torch.full_like(x, 0.7)) / 0.7


def _unseeded(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator()
    generator.seed()
    return x * torch.bernoulli(torch.full_like(x, 0.7), generator=generator) / 0.7


@pytest.mark.parametrize(
    ("drop", "word"),
    [
        (_forgets_the_scale, "scale of output 0"),
        (_swaps_p, "keep rate of output 0"),
        (_one_mask, "with another seed"),
        (_unseeded, "with the same seed"),
        (Redrawn.apply, "mask of output 0"),
    ],
)
def test_a_wrong_dropout_is_found_though_its_stream_is_its_own(drop: Any, word: str) -> None:
    args = (randn(40, 50, grad=True),)
    evidence = run(rng, Dropping(dropout), args, Dropping(drop), mode="training", changes=OWN_STREAM)
    assert any(word in message for message in failures(rng.check(evidence)))


def test_an_honest_dropout_of_its_own_stream_passes_where_the_contract_allows_it_alone() -> None:
    args = (randn(40, 50, grad=True),)
    allowed = run(rng, Dropping(dropout), args, Dropping(_own_stream), mode="training", changes=OWN_STREAM)
    assert passes(rng.check(allowed)), failures(rng.check(allowed))
    same_stream = run(rng, Dropping(dropout), args, Dropping(_own_stream), mode="training")
    messages = failures(rng.check(same_stream))
    assert any("the generator is not where" in message for message in messages)


def test_a_lost_scale_inside_a_network_moves_its_size_over_many_seeds() -> None:
    def network(drop: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
        return Calls(lambda x: drop(x.cosh()) @ torch.ones(50, 3))

    args = (randn(40, 50),)
    evidence = run(rng, network(dropout), args, network(_forgets_the_scale), changes=OWN_STREAM)
    assert any("size of output 0" in message for message in failures(rng.check(evidence)))
    assert not failures(rng.check(run(rng, network(dropout), args, network(_own_stream), changes=OWN_STREAM)))


def test_a_program_without_random_numbers_is_none_of_its_business() -> None:
    found = rng.check(run(rng, Ordered(), (randn(5, 5),)))
    assert [finding.required for finding in found] == [False]


# devices and toolchains


def test_a_fault_on_one_device_alone_is_found_and_an_absent_device_is_never_a_pass() -> None:
    evidence = run(devices, Net(), net_inputs(), changes=LEVELS)
    assert passes(devices.check(evidence))
    (seen,) = evidence.ran("example", "cpu-avx2")
    moved = replace(seen, tensors={**seen.tensors, "output:0": seen.tensors["output:0"] * 1.001})
    assert "cpu/avx2" in {
        item.device for item in devices.check(evidence.with_seen("example", 0, moved, "cpu-avx2")) if item.n_bad
    }
    absent = replace(evidence, seen={name: seen for name, seen in evidence.seen.items() if name != "cpu-avx2"})
    (missing,) = [item for item in devices.check(absent) if item.status is Status.NOT_RUN]
    assert missing.required
    assert missing.device == "cpu/avx2"


def test_toolchains_do_not_apply_to_what_compiles_nothing() -> None:
    found = toolchains.check(run(toolchains, Ordered(), (randn(5, 5),), facts=ARTIFACT))
    assert [(item.status, item.required) for item in found] == [(Status.NOT_RUN, False)]


# capture and liveness


def test_a_captured_graph_that_is_another_program_is_a_finding_of_capture() -> None:
    honest = run(mutation, Net(), net_inputs(), mode="training")
    assert passes(capture.check(honest))
    planted = capture.canary(honest)
    assert planted is not None
    assert {item.check_name for item in capture.check(planted)} == {"capture"}
    wrong = run(mutation, Calls(lambda x: x.mul_(2)), (randn(4),), Calls(lambda x: x * 2))
    assert failures(capture.check(wrong))


def test_a_family_whose_canary_lived_is_not_run() -> None:
    found = {item.what: item for item in liveness.findings({"killed": True, "lived": False, "nothing": None})}
    assert [found["killed"].status, found["lived"].status] == [Status.PASS, Status.NOT_RUN]
    assert found["lived"].required
    assert not found["liveness"].required
