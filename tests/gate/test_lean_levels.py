"""What a level asks for: each call serves all it can, and what two families ask for is made once."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gate_evidence import evidence_of
from gate_settings import randn, setting_of

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import expectation
from tensorfarm.gate.checks import layouts
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import proven, trials_of
from tensorfarm.gate.finding import Finding, failed, passed
from tensorfarm.gate.inputs import example, normal
from tensorfarm.gate.inputs.layouts import OFFSET, name_of
from tensorfarm.gate.planted import with_tensor
from tensorfarm.gate.setting import Level
from tensorfarm.gate.trial import Derivative

INTEGERS = torch.arange(128).view(4, 32)


@pytest.mark.parametrize(
    ("inputs", "calls", "backward"), [({"x": randn(8, 3, 16, 16)}, 28, 6), ({"tokens": INTEGERS}, 16, 4)]
)
def test_the_standard_level_asks_a_built_subject_for_no_more_calls_than_it_is_paid_for(
    inputs: dict[str, torch.Tensor], calls: int, backward: int
) -> None:
    built = setting_of(inputs, level=Level.STANDARD, mode="training", fixed_shapes=True, fixed_layouts=True)
    asked = [call for trial in trials_of(built).values() for call in trial.calls]
    assert len(asked) <= calls
    assert sum(call.derivative is Derivative.VJP for call in asked) <= backward


def test_inputs_that_several_families_ask_for_are_drawn_once() -> None:
    setting = setting_of({"x": randn(4, 5)}, level=Level.STANDARD)
    first, again = normal.trial(setting), normal.trial(setting)
    assert first is not None
    assert again is not None
    assert first.calls[0].inputs is again.calls[0].inputs
    other = normal.trial(replace(setting, seed=1))
    assert other is not None
    assert not torch.equal(other.calls[0].inputs["x"], first.calls[0].inputs["x"])


@pytest.mark.parametrize("far", [False, True])
def test_a_canary_is_looked_for_where_it_was_planted_and_then_everywhere(far: bool) -> None:
    seen: list[set[str]] = []

    def check(evidence: Evidence) -> list[Finding]:
        seen.append(set(evidence.trials))
        value = evidence.ran(name_of(OFFSET))[0].tensors["output:0"]
        bad = bool(value.isnan().any()) and (len(evidence.trials) > 2 or not far)
        return [failed("planted", "output 0", "NaN") if bad else passed("planted", "output 0", 1)]

    whole = evidence_of([layouts], torch.nn.ReLU(), [randn(4, 6)], level=Level.STANDARD)
    spoilt = with_tensor(whole, name_of(OFFSET), 0, "output:0", torch.full((4, 6), torch.nan))
    findings = proven(check, whole, lambda: spoilt)
    assert {finding.status for finding in findings} == {Status.PASS}
    everywhere = set(whole.trials)
    assert seen == [everywhere, {name_of(OFFSET)} | ({example.NAME} & everywhere), *([everywhere] if far else [])]


def test_of_a_call_that_gave_no_answer_no_expectation_is_read(tmp_path: Path) -> None:
    evidence = evidence_of([layouts], torch.nn.ReLU(), [randn(4, 6)], level=Level.STANDARD)
    sha256 = expectation.save(tmp_path / "oracle", evidence.expected)
    found = expectation.load(tmp_path / "oracle", sha256, lambda name, number: name == name_of(OFFSET) and not number)
    assert found.keys() == evidence.expected.keys()
    assert torch.equal(found[name_of(OFFSET)][0].exact["output:0"], torch.relu(randn(4, 6)).double())
    others = [call for name, calls in found.items() if name != name_of(OFFSET) for call in calls]
    assert others
    assert not any(call.exact or call.eager.tensors for call in others)
