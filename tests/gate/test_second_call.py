"""Second calls: sequences of the user's own, and what else a cache may leave out of its key."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from gate_behaviour import Calls, failures, run
from gate_contract import contract_with
from gate_evidence import COMPILED
from torch import nn

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import between
from tensorfarm.gate.calling import observed
from tensorfarm.gate.checks import second_call
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import proven
from tensorfarm.gate.inputs import ladder, promotion
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import ModuleCallee, reference_of_module
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Call, Depth, Trial


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def in_sequence(module: nn.Module, subject: Callable[[nn.Module], Any], given: list[Any], change: str = "") -> Evidence:
    """The user's calls at the quick level, in the place of the example."""
    reference = reference_of_module(module, given[0], {})
    made = reference_of_module(module, given[0], {}).build()
    setting = Setting(contract_with(), reference.leaves, COMPILED, "inference", Level.QUICK, 0)
    names = [leaf.name for leaf in reference.leaves]
    calls = tuple(
        Call(dict(zip(names, inputs, strict=True)), between=change if step else "") for step, inputs in enumerate(given)
    )
    trial = Trial("example", calls, Depth.BUDGET)
    expected = expectations(reference, [trial], setting.contract, 0)
    callee = replace(ModuleCallee(made, reference.in_spec), module=subject(made))
    seen: list[Any] = []
    for number, call in enumerate(calls):
        if call.between:
            between.apply(made, call.between, number)
        leaves = reference.arguments(call.inputs, call.literals, wide=False)
        seen.append(observed(callee, leaves, call.derivative, lambda _: {}, call.seed))
    return Evidence(setting, {"example": trial}, expected, {MAIN.name: {"example": tuple(seen)}})


class Parent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Registered(nn.Module):
    """Looks a child up where it is registered alone."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = [module]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module[0]._modules["inner"](x)


def test_a_stale_answer_in_the_users_own_sequence_is_found_at_the_quick_level() -> None:
    evidence = in_sequence(Parent(), Registered, [(values(2, 4),)] * 2, "shadow_attribute")
    assert "call 2 (example)" in failures(second_call.check(evidence))[0]
    honest = in_sequence(Parent(), lambda module: module, [(values(2, 4),)] * 2, "shadow_attribute")
    assert not failures(second_call.check(honest))
    assert {item.status for item in proven(second_call.check, honest, lambda: second_call.canary(honest))} == {
        Status.PASS
    }


def test_inputs_that_begin_to_overlap_in_the_users_own_sequence_are_looked_at_anew() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + y

    def apart(_module: nn.Module) -> nn.Module:
        return Calls(_apart)

    def _apart(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        before = y.clone()
        x.mul_(2)
        return x + before

    whole = torch.ones(8)
    given = [(torch.ones(4), torch.ones(4)), (whole[:4], whole[2:6])]
    assert "output 0 of call 2" in failures(second_call.check(in_sequence(Doubles(), apart, given)))[0]


def test_calls_that_answer_alike_leave_no_place_for_a_fault_and_nothing_is_taken_back() -> None:
    evidence = in_sequence(Parent(), lambda module: module, [(values(2, 4),)] * 3)
    said = proven(second_call.check, evidence, lambda: second_call.canary(evidence))
    assert {item.status for item in said if item.required} == {Status.PASS}


def test_without_a_sequence_the_quick_level_asks_for_nothing_more_and_says_so() -> None:
    evidence = run(second_call, Parent(), (values(2, 4),), level=Level.QUICK)
    assert list(evidence.trials) == ["example"]
    assert [(item.status, item.required) for item in second_call.check(evidence)] == [(Status.NOT_RUN, False)]


@pytest.mark.parametrize("level", [Level.STANDARD, Level.FULL])
def test_a_shadowed_child_is_asked_for_at_the_full_level_alone(level: Level) -> None:
    evidence = run(second_call, Parent(), (values(5, 4),), wrap=Registered, level=level)
    assert bool(failures(second_call.check(evidence))) is (level is Level.FULL)


def test_of_what_dynamo_traced_no_shadowed_child_is_asked_for_and_that_is_said() -> None:
    traced = replace(COMPILED, dynamo=True)
    evidence = run(second_call, Parent(), (values(5, 4),), wrap=Registered, facts=traced)
    said = proven(second_call.check, evidence, lambda: second_call.canary(evidence))
    assert {item.status for item in said if item.required} == {Status.PASS}
    unasked = [item for item in said if item.what == "shadow_attribute"]
    assert [(item.status, item.required) for item in unasked] == [(Status.NOT_RUN, False)]
    own = in_sequence(Parent(), Registered, [(values(2, 4),)] * 2, "shadow_attribute")
    assert failures(second_call.check(replace(own, setting=replace(own.setting, facts=traced))))


class First:
    """Whatever the inputs are later, they are made what they were in the first call."""

    def __init__(self, module: nn.Module, made_alike: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        self.module, self.made_alike = module, made_alike
        self.first: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.first = x if self.first is None else self.first
        return self.module(self.made_alike(x, self.first))


def _first_dtype(x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    return x.to(first.dtype)


def _first_size(x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, first])[: len(first)]


@pytest.mark.parametrize(
    ("module", "made_alike", "place"),
    [
        (Calls(torch.tanh), _first_dtype, "output 0 of call 3 (other dtypes)"),
        (Parent(), _first_dtype, "the original raises RuntimeError"),
        (Calls(torch.tanh), _first_size, "(another size)"),
    ],
)
def test_a_cache_whose_key_lacks_a_dtype_or_a_size_answers_the_wrong_question(
    module: nn.Module, made_alike: Any, place: str
) -> None:
    evidence = run(
        second_call, module, (values(5, 4),), wrap=lambda inner: First(inner, made_alike), level=Level.STANDARD
    )
    assert place in failures(second_call.check(evidence))[0]
    honest = run(second_call, module, (values(5, 4),), level=Level.STANDARD)
    assert not failures(second_call.check(honest))


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_an_epsilon_that_is_read_once_is_found_beside_values_of_any_usual_size(size: float) -> None:
    def frozen(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        eps = module.eps
        return lambda x: nn.functional.layer_norm(x, (4,), module.weight, module.bias, eps)

    evidence = run(second_call, nn.LayerNorm(4), (values(5, 4) * size,), wrap=frozen, level=Level.STANDARD)
    assert "_attribute)" in failures(second_call.check(evidence))[0]


def test_changed_numbers_stay_what_they_are() -> None:
    assert [between.other_float(value) for value in (0.5, 0.0, 1e-5, 0.01, -1e-12)] == [0.25, 0.0, *(
        pytest.approx(value) for value in (1e-5 * 2**15, 0.01 * 2**5, -1e-12 * 2**38)
    )]  # fmt: skip
    module = nn.LayerNorm(3)
    for name in ("change_attribute", "enlarge_attribute"):
        between.apply(module, name, 0)
    assert 2**10 <= module.eps < 2**11


def test_inputs_of_another_size_are_the_examples_own_rows() -> None:
    x, ids = values(5, 4), torch.arange(5)
    setting = run(second_call, Calls(lambda x, ids: x[ids]), (x, ids), level=Level.STANDARD).setting
    fewer = ladder.one_row_less(setting)
    assert torch.equal(fewer["args[0]"], x[:4])
    assert torch.equal(fewer["args[1]"], ids[:4])
    assert promotion.widened(setting)["args[0]"].dtype is torch.float64
    short = run(second_call, Calls(torch.tanh), (values(2, 4),), level=Level.STANDARD).setting
    assert ladder.one_row_less(short) == {}


class Added(nn.Module):
    def forward(self, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x + row


def test_rows_of_what_wants_a_gradient_and_has_no_other_strides_are_turned_as_well() -> None:
    row = values(3).requires_grad_()
    reference = reference_of_module(Added(), (values(3, 3).requires_grad_(), row), {})
    setting = Setting(contract_with(), reference.leaves, COMPILED, "training", Level.STANDARD, 0)
    inputs = dict(second_call.steps(setting))["other strides"].inputs
    assert torch.equal(list(inputs.values())[1], row.roll(1, 0))
