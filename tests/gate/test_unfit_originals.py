"""What cannot be judged at all: an original that is no witness, a program that the contract is not about."""

import itertools
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gate_contract import CONTRACT, contract_fields, contract_with
from gate_workshop import Workshop, program
from torch import nn

from tensorfarm.contract.capture import captured
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.exchange import REQUEST
from tensorfarm.contract.numerics import parse_contract
from tensorfarm.contract.program import Program
from tensorfarm.gate import Outcome, certify, other_streams
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.case import Case
from tensorfarm.gate.facts import facts_of
from tensorfarm.gate.inputs.outside import outside_declared
from tensorfarm.gate.setting import Leaf, Level, Setting

FLOAT32 = {f"numerics.dtypes.{name}": "float32" for name in ("inputs", "params", "outputs")}
X = torch.linspace(-2, 2, 12).view(3, 4)


class Applied(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Counting(nn.Module):
    """Keeps count where nobody who restores tensors, attributes and lists finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = itertools.count(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * next(self.calls)


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = torch.Generator()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(x.shape, generator=self.own)


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        self.shift = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale.float() + self.shift.float()


def judged(module: nn.Module, changes: Mapping[str, Any] | None = None) -> Certificate:
    return certify(module, module.forward, (X,), contract_with({**FLOAT32, **(changes or {})}), level="quick")


def only_line(verdict: Certificate) -> str:
    """The one finding of a verdict that nothing was run for."""
    (finding,) = verdict.findings
    assert (verdict.outcome, verdict.kind, finding.check_name) == (Outcome.UNDECIDED, "not_run", "witness")
    assert verdict.message == f"witness: {finding.message}"
    return finding.message


RANDOM: dict[str, Callable[[], nn.Module]] = {
    "of another library": lambda: Applied(lambda x: x * random.random()),
    "of numpy": lambda: Applied(lambda x: x * float(np.random.standard_normal())),
    "beside torch's own": lambda: Applied(lambda x: torch.dropout(x, 0.5, train=True) * (1 + random.random())),
    "for a branch that is seldom taken": lambda: Applied(lambda x: x * 2 if random.random() < 0.1 else x),
    "of the system": lambda: Applied(lambda x: x + os.urandom(1)[0] + os.urandom(1)[0] / 255),
    "of a generator of its own": Drawing,
    "in an integer": lambda: Applied(lambda x: (x > 0).int() + random.SystemRandom().getrandbits(20)),
    "counted": Counting,
}


@pytest.mark.parametrize("name", RANDOM)
def test_an_original_that_does_not_repeat_itself_is_no_witness(name: str) -> None:
    told = only_line(judged(RANDOM[name]()))
    assert "the original gives another output 0 when it is called again" in told
    assert "torch.manual_seed" in told


def test_numbers_that_nothing_hangs_on_are_no_fault_of_a_witness_and_its_streams_are_put_back() -> None:
    def draws(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if random.random() < 2 and np.random.random() < 2 else x

    begun = other_streams.position()
    for _ in other_streams.positions():
        draws(X)
    assert other_streams.position() == begun
    assert judged(Applied(draws)).outcome is Outcome.ADMITTED
    draws(X)
    assert other_streams.position() != begun


def test_torchs_own_stream_is_seeded_for_every_call_so_a_subject_that_draws_alike_is_admitted() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.dropout(x, 0.5, train=True) + torch.randn(3, 4)

    def early(x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(3, 4)
        return torch.dropout(x, 0.5, train=True) + noise

    assert judged(Applied(noisy)).outcome is Outcome.ADMITTED
    assert certify(noisy, early, (X,), level="quick").outcome is Outcome.CONFORMANCE_FAILURE


@pytest.mark.slow
@pytest.mark.parametrize("drawn", ["torch.rand(())", "random.random()", "np.random.random()", "os.urandom(1)[0]"])
def test_by_name_too_only_what_torch_draws_can_be_drawn_again(drawn: str, tmp_path: Path) -> None:
    path = tmp_path / "noisy.py"
    path.write_text(
        "import os, random\nimport numpy as np\nimport torch\n\n\n"
        f"def program(x):\n    return x * (1 + {drawn})\n\n\n"
        "class Noisy(torch.nn.Module):\n    def forward(self, x):\n        return program(x)\n\n\n"
        "def factory():\n    return Noisy(), (torch.linspace(1, 2, 5),)\n"
    )
    verdict = certify(f"{path}:factory", f"{path}:program", None, level="quick")
    if drawn.startswith("torch"):
        assert verdict.outcome is Outcome.ADMITTED, verdict.message
    else:
        assert verdict.outcome is Outcome.UNDECIDED
        assert "torch.manual_seed does not reach" in verdict.message


def test_a_count_in_an_attribute_begins_anew_with_every_trial_for_all_who_are_called() -> None:
    class Steps(nn.Module):
        def __init__(self, by: int) -> None:
            super().__init__()
            self.step, self.by, self.seen = 0, by, list[torch.Tensor]()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += self.by
            self.seen.append(x)
            return x * self.step

    module = Steps(1)
    assert certify(module, module.forward, (X,)).outcome is Outcome.ADMITTED
    assert (module.step, module.seen) == (0, [])
    assert certify(module, Steps(1), (X,)).outcome is Outcome.ADMITTED
    assert certify(module, Steps(2), (X,)).outcome is Outcome.CONFORMANCE_FAILURE


def test_the_same_values_otherwise_rounded_are_not_other_values() -> None:
    class Turning(Counting):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(1) if next(self.calls) % 2 else x[:, [3, 1, 2, 0]].sum(1)

    module = Turning()
    assert certify(module, lambda x: x.sum(1), (X.exp(),), level="quick").outcome is Outcome.ADMITTED


def test_parameters_of_another_dtype_are_told_before_anything_runs() -> None:
    told = only_line(judged(Half()))
    assert told == "parameter scale is bfloat16 (and 1 more parameters); contract test declares float32 parameters"
    assert judged(Half(), {"numerics.dtypes.params": "any"}).outcome is Outcome.ADMITTED


def test_outputs_of_another_dtype_are_outside_the_contract_and_never_a_pass() -> None:
    module = Applied(lambda x: (x * 2, x.double() * 3, x > 0, x.to(torch.complex64)))
    verdict = judged(module)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.message == "witness: output 1 is float64; contract test declares float32 outputs"
    assert judged(module, {"numerics.dtypes.outputs": "any"}).outcome is Outcome.ADMITTED


def test_an_input_outside_the_ranges_is_told_before_anything_runs() -> None:
    def never(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("the original ran")

    told = only_line(judged(Applied(never), {"inputs.ranges.floating": [-1, 1]}))
    assert told.startswith("input args[0] is -2 at [0, 0]; contract test declares")


def test_the_judge_gives_its_verdict_in_the_first_step(workshop: Workshop) -> None:
    mlp = program("mlp")
    for changes, words in (
        ({"inputs.ranges.floating": [-1e-3, 1e-3]}, "input"),
        ({"numerics.dtypes.params": "bfloat16"}, "parameter"),
    ):
        case = workshop.case(mlp, workshop.artifact(mlp), contract=contract_fields(changes))
        prepared = workshop.result("prepare", case)
        assert prepared["verdict"]["outcome"] == "undecided"
        assert prepared["verdict"]["message"].startswith(f"witness: {words} ")
        assert not (Path(case["folder"]) / REQUEST).exists()
        assert workshop.decided(case, prepared)["message"] == prepared["verdict"]["message"]


# The oracle's file


def case_of(made: Program, folder: Path) -> Case:
    path = folder / "saved.program"
    made.save(path)
    return Case.of(
        {
            "subject": {"kind": "captured"},
            "program": str(path),
            "program_sha256": sha256_file(path),
            "semantic_hash": made.semantic_hash,
            "mode": "inference",
            "contract": CONTRACT,
            "folder": str(folder / "run"),
        },
        "gate",
    )


def tanh_at(*values: float) -> Program:
    return captured("tanh", torch.export.export(nn.Tanh(), (torch.tensor(values),), strict=False))


def test_programs_that_differ_in_the_values_of_their_inputs_alone_never_share_an_oracle(tmp_path: Path) -> None:
    one, other = tanh_at(0.5, 0.25), tanh_at(0.5, 0.75)
    assert (one.semantic_hash, one.input_spec_id) == (other.semantic_hash, other.input_spec_id)
    first, second = (case_of(made, tmp_path).oracle_key for made in (one, other))
    assert first != second
    assert case_of(tanh_at(0.5, 0.25), tmp_path).oracle_key == first


SOURCE = """
import torch

def tanh():
    return torch.nn.Tanh(), (torch.tensor([0.5, 0.25]),)

def calls():
    return [(torch.tensor([0.5, value]),) for value in (0.25, LAST)]
"""


def test_calls_that_differ_in_one_value_or_a_contract_in_one_range_never_share_an_oracle(tmp_path: Path) -> None:
    keys: list[str] = []
    file = tmp_path / "source.py"
    for last, ranges in ((0.75, [-9, 9]), (0.625, [-9, 9]), (0.75, [-9, 8]), (0.75, [-9, 9])):
        file.write_text(SOURCE.replace("LAST", str(last)))
        request: dict[str, Any] = {
            "subject": {"kind": "callable", "source": "nowhere:at_all"},
            "source": f"{file}:tanh",
            "sequence": f"{file}:calls",
            "mode": "inference",
            "contract": contract_fields({"inputs.ranges.floating": ranges}),
            "folder": str(tmp_path),
        }
        keys.append(Case.of(request, "gate").oracle_key)
    assert len(set(keys)) == 3
    assert keys[0] == keys[3]


def test_small_integers_are_inside_a_range_that_their_dtype_cannot_hold() -> None:
    leaf = Leaf("n", torch.tensor([58, -128], dtype=torch.int8))
    setting = Setting(parse_contract(CONTRACT), (leaf,), facts_of({"kind": "callable"}), "inference", Level.QUICK, 0)
    assert outside_declared(setting) == []
