"""Live objects that no gate can do its work with: what they do in the caller's process is a finding, or is let through.

Originals that draw from anywhere, and inputs that no contract is about, are in the tests of unfit originals.
"""

from collections.abc import Callable
from typing import Any

import gate_misfits
import pytest
import torch

from tensorfarm.gate import Certificate, Outcome, certify
from tensorfarm.gate.library import contract_fields


def judged(made: gate_misfits.Made, compiled: Callable[[torch.Tensor], Any]) -> Certificate:
    original, inputs = made
    verdict = certify(original, compiled, inputs, level="quick", mode="inference")
    assert "Traceback" not in "\n".join([verdict.message, *(finding.message for finding in verdict.findings)])
    return verdict


NO_WITNESS = {
    "raises": "the original raises on the example inputs: ValueError: no such head",
    "exits": "the original raises on the example inputs: SystemExit: 0",
    "returns_words": "the original returns no tensor (done), so there is no value to compare",
}


@pytest.mark.parametrize("name", NO_WITNESS)
def test_a_live_original_that_is_no_witness_is_one_finding(name: str) -> None:
    made = getattr(gate_misfits, name)()
    verdict = judged(made, made[0].forward)
    assert verdict.outcome is Outcome.UNDECIDED
    assert [finding.message for finding in verdict.of_check("witness")] == [NO_WITNESS[name]]


SUBJECTS = {
    "exits_with_0": "it raises SystemExit: 0",
    "exits_with_words": "it raises SystemExit: enough",
    "allocates_what_nobody_has": "can't allocate memory",
    "raises_many_lines": "it raises ValueError: a kernel says: no such shape",
    "returns_words_too": "the subject gave none",
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_live_subject_that_gives_no_answer_is_a_finding_and_ends_nobody(name: str) -> None:
    """Had ``sys.exit(0)`` gone through, a script that certifies would have ended as if all were well."""
    verdict = judged(gate_misfits.tanh(), getattr(gate_misfits, name))
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    assert SUBJECTS[name] in verdict.message


def test_ctrl_c_is_the_callers_and_goes_through() -> None:
    def interrupted(_: torch.Tensor) -> None:
        torch.set_default_dtype(torch.float64)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(gate_misfits.tanh(), interrupted)
    assert torch.get_default_dtype() is torch.float32


def test_a_stream_of_its_own_may_move_where_the_original_draws_nothing() -> None:
    """Inductor draws its seeds first: of no rows there is nothing to drop, and what is refused was not drawn for."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        torch.rand(())
        return module(x)

    fields = contract_fields("float32")
    fields["rng"]["policy"] = "seeded_own_stream"
    verdict = certify(module, compiled, (gate_misfits.X,), fields, level="standard", mode="inference")
    assert [finding.message for finding in verdict.of_check("process_state")] == [""]
