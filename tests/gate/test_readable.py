"""What a person reads of a verdict: the cause first, each thing once, what the original errs by, and all counted."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import Certificate, certify
from tensorfarm.gate.attestation import certificate_of, finding_of
from tensorfarm.gate.finding import Finding, failed
from tensorfarm.gate.readable import details, headline, left_out, readable
from tensorfarm.gate.severity import Severity, severity_of, worst_first

X = torch.linspace(-2, 2, 20).view(5, 4)


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.weight)


@pytest.fixture(scope="module")
def off() -> Certificate:
    """Wrong in its output by a little, in its gradient by much."""
    module = Scaled()

    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = module(x)
        return y * (1 + 1e-5) + (y - y.detach()) * 0.5

    return certify(module, compiled, (X,), level="quick")


def test_a_wrong_output_comes_before_the_gradient_that_it_explains(off: Certificate) -> None:
    text = readable(off)
    assert text.index("CRITICAL forward: output 0") < text.index("CRITICAL gradient: gradient weight")
    wrong = worst_first(off.findings)
    assert wrong[0].finding.observed_over_limit < wrong[1].finding.observed_over_limit


def test_what_the_original_errs_by_is_told_once_and_beside_its_element(off: Certificate) -> None:
    told = details(worst_first(off.findings)[0])
    assert told[0].startswith("worst element [")
    assert told[1].startswith("at [")
    assert told[1].endswith("both are nearer to float64 than the subject")
    assert "the original errs by" in off.message
    assert "the original errs by" not in headline(off)
    assert headline(off).endswith("more findings)")


def test_an_undecided_element_has_what_the_original_errs_by_on_a_line_of_its_own() -> None:
    told, step = "there the original errs by 17.5, and by 17 with its sums in reverse order", "try other inputs"
    message = f"output 0: too wide; {step}; {told}"
    finding = Finding("forward", "output 0", Status.UNDECIDABLE, message, next_step=step, original_errs=told)
    (one,) = worst_first([finding])
    assert details(one)[:2] == ["output 0: too wide", told]
    assert details(one)[-1] == f"next: {step}"
    assert readable(certificate_of({**EMPTY, **_undecided(finding)})).splitlines()[0].endswith(f"too wide; {step}")


EMPTY = {"status": "undecidable", "outcome_kind": "undecidable", "gate_version": "gate/2", "attestation": {}}


def _undecided(finding: Finding) -> dict[str, object]:
    message = f"{finding.check_name}: {finding.message}"
    return {"outcome": "undecided", "message": message, "findings": [finding.row(seed=0)]}


def test_a_row_and_its_finding_say_the_same_and_an_earlier_gates_row_is_read() -> None:
    """Severities of processes apart are those of live objects."""
    finding = failed("metadata", "output 0", "expected strides [2, 1], seen [1, 2]")
    slight = replace(finding, slight=True, next_step="copy it", original_errs="there the original errs by 1")
    assert finding_of(slight.row(seed=0)) == slight
    assert [severity_of(finding_of(one.row(seed=0))) for one in (slight, finding)] == [Severity.MINOR, Severity.MAJOR]
    added = ("next_step", "original_errs", "slight")
    earlier = {key: value for key, value in slight.row(seed=0).items() if key not in added}
    assert finding_of(earlier) == finding


@pytest.mark.parametrize(
    ("compiled", "severity"),
    [
        (lambda x: torch.tanh(x).t().contiguous().t(), Severity.MINOR),
        (lambda x: torch.tanh(x).double(), Severity.MAJOR),
        (lambda x: torch.tanh(x).double().t().contiguous().t(), Severity.MAJOR),
    ],
)
def test_strides_alone_are_minor_and_beside_another_dtype_they_are_not(
    compiled: Callable[[torch.Tensor], torch.Tensor], severity: Severity
) -> None:
    verdict = certify(torch.tanh, compiled, (X,), level="quick")
    assert {severity_of(finding) for finding in verdict.of_check("metadata")} == {severity}


def test_one_thing_on_many_inputs_is_spelt_out_once_and_counted_as_often_as_it_was_found() -> None:
    one = failed("layouts", "output 0", "wrong")
    seen = [replace(one, observed_over_limit=float(ratio), layout=f"layout_{ratio}") for ratio in (2, 9, 4)]
    seen += [failed("layouts", "output 1", "wrong"), failed("metadata", "output 0", "wrong")]
    wrong = worst_first(seen)
    assert [(item.severity, item.finding.what, len(item.others)) for item in wrong] == [
        (Severity.CRITICAL, "output 1", 0),
        (Severity.CRITICAL, "output 0", 2),
        (Severity.MAJOR, "output 0", 0),
    ]
    assert details(wrong[1])[-1] == "inputs: suite example, layout layout_9, on cpu; the worst of 3 such inputs"
    assert left_out(wrong[1:]) == "3 critical, 1 major more: layouts 3, metadata 1"


def test_a_limit_wider_than_the_value_leaves_no_digits() -> None:
    wide = Finding("forward", "output 0", Status.UNDECIDABLE, "too wide", digits=-1.2, limit_abs=239.0, n_elements=5)
    (one,) = worst_first([wide])
    assert "limit 239, which leaves 0.0 decimal digits; 0 of 5 elements are off" in details(one)


def test_a_program_that_draws_other_numbers_is_told_what_to_do_about_it() -> None:
    """What ``torch.compile`` does by default with dropout in training."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
    verdict = certify(module, lambda x: module[1](torch.rand(()) * 0 + module[0](x)), (X,), level="quick")
    assert verdict.outcome.exit_code == 13
    assert "declare rng.policy seeded_own_stream" in readable(verdict)
