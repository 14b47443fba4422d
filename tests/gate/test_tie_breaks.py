"""The second oracle in a verdict: what the original itself errs by, told of what did not pass and of nothing else."""

from typing import Any

import torch
from gate_contract import contract_with
from gate_evidence import evidence_of
from gate_workshop import Workshop, program

from tensorfarm.contract.outcome import Status
from tensorfarm.gate import Outcome, certify
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.checks import forward
from tensorfarm.gate.reference import Reference, leaves_of
from tensorfarm.gate.second_oracle import with_tie_breaks


class Sums(torch.nn.Module):
    """One output that loses every digit, and one that loses none."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        large = (x * 1e6).sum(0)
        return (large + x.sum(0)) - large * (1 + 2**-20), x * 3


def x() -> torch.Tensor:
    return torch.randn(400, 5, generator=torch.Generator().manual_seed(4)).abs()


def judged(compiled: Any, **options: Any) -> Certificate:
    return certify(Sums(), compiled, (x(),), contract_with(), level="quick", **options)


def messages(verdict: Certificate, check: str) -> dict[str, str]:
    return {finding.what: finding.message for finding in verdict.of_check(check)}


def test_an_element_that_cannot_be_decided_says_what_the_original_errs_by() -> None:
    module = Sums()
    told = messages(judged(module.forward), "forward")
    assert "the original errs by" in told["output 0"]
    assert "no more exact than that at this element" in told["output 0"]
    assert told["output 1"] == ""


def test_a_wrong_element_says_that_both_are_nearer() -> None:
    module = Sums()

    def wrong(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = module(x)
        second[3, 2] *= 1.001
        return first, second

    verdict = judged(wrong)
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    told = messages(verdict, "forward")["output 1"]
    assert "; at [3, 2] the original errs by" in told
    assert "both are nearer to float64 than the subject" in told


def test_a_gradient_is_told_about_in_the_trial_that_it_is_wrong_in() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.linspace(0.5, 2, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).tanh()

    module = Scaled()

    def off(x: torch.Tensor) -> torch.Tensor:
        y = module(x)
        return y + (y - y.detach()) * 1e-3

    verdict = certify(module, off, (x(),), contract_with(), mode="training", level="standard")
    told = [finding for finding in verdict.of_check("gradient") if finding.status.value == "fail"]
    assert len(told) > 1
    assert all("both are nearer to float64" in finding.message for finding in told)


def test_nothing_is_run_where_everything_passes() -> None:
    def build() -> torch.nn.Module:
        raise AssertionError("the second oracle ran")

    evidence = evidence_of([forward], torch.nn.Tanh(), (x(),))
    findings = forward.check(evidence)
    assert {finding.status for finding in findings} == {Status.PASS}
    leaves, in_spec = leaves_of((x(),), {})
    assert with_tie_breaks(findings, evidence, Reference(build, leaves, in_spec)) == findings


def test_the_judge_tells_it_in_its_own_process(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:scale_by_a_thousandth_more")
    told = [row["message"] for row in verdict["findings"] if (row["check_name"], row["status"]) == ("forward", "fail")]
    assert told
    assert all("both are nearer to float64 than the subject" in message for message in told)
