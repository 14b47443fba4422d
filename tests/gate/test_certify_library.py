"""``certify`` as a function: live objects in this process, judged and left as they were."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tensorfarm.gate import Certificate, Outcome, Refusal, Status, certify
from tensorfarm.gate.attestation import certificate_of
from tensorfarm.gate.library import contract_fields
from tensorfarm.gate.readable import readable
from tensorfarm.gate.severity import Severity, severity_of


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(6, 12)
        self.down = torch.nn.Linear(12, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Approximate(Block):
    """Another GELU: off by some 1e-4."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block()


X = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))


def quick(reference: Any, compiled: Any, inputs: Any = (X,), **options: Any) -> Certificate:
    return certify(reference, compiled, inputs, level="quick", **options)


def approximation_of(block: Block) -> Approximate:
    made = Approximate()
    made.load_state_dict(block.state_dict())
    return made


def test_what_computes_the_same_is_admitted_and_said_to_have_been_judged_without_walls(block: Block) -> None:
    verdict = quick(block, lambda x: block(x))
    assert (verdict.outcome, verdict.status, verdict.message) == (Outcome.ADMITTED, Status.PASS, "")
    assert verdict.attestation["isolation"] == "none"
    assert sum(finding.n_elements for finding in verdict.of_check("gradient")) > 0


def test_another_approximation_is_found_in_values_and_gradients(block: Block) -> None:
    verdict = quick(block, approximation_of(block))
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    assert {"forward", "gradient"} <= {
        finding.check_name for finding in verdict.findings if severity_of(finding) is Severity.CRITICAL
    }


def test_a_failure_reads_with_its_worst_element_its_inputs_and_how_to_see_it_again(block: Block) -> None:
    text = readable(quick(block, approximation_of(block)), "pytest tests/mine.py")
    first = text.splitlines()[0]
    assert first.startswith("conformance_failure (")
    for words in (
        "CRITICAL forward: output 0",
        "worst element [",
        "expected",
        "off by",
        "decimal digits",
        "suite example",
    ):
        assert words in text
    assert text.rstrip().endswith("pytest tests/mine.py")


def test_a_certificate_read_back_from_its_json_is_the_same(block: Block) -> None:
    verdict = quick(block, approximation_of(block))
    assert certificate_of(verdict.as_json()) == verdict


def test_the_callers_process_and_objects_are_left_as_they_were(block: Block) -> None:
    def vandal(x: torch.Tensor) -> torch.Tensor:
        block.calls.add_(1)
        with torch.no_grad():
            block.up.bias.add_(1)
        torch.set_default_dtype(torch.float64)
        random.random()
        return block(x)

    held = {name: value.clone() for name, value in block.state_dict().items()}
    torch.manual_seed(7)
    stream, python, inputs = torch.get_rng_state(), random.getstate(), X.clone()
    with torch.no_grad():
        verdict = quick(block, vandal)
        assert not torch.is_grad_enabled()
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    assert verdict.of_check("process_state")
    assert torch.get_default_dtype() is torch.float32
    assert torch.equal(torch.get_rng_state(), stream)
    assert random.getstate() == python
    assert torch.equal(X, inputs)
    for name, value in block.state_dict().items():
        assert torch.equal(value, held[name])


def test_the_oracle_has_run_before_the_compiled_object_can_patch_torch(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    def liar(x: torch.Tensor) -> torch.Tensor:
        monkeypatch.setattr(F, "gelu", torch.relu)
        return block(x)

    assert quick(block, liar, mode="inference").outcome is Outcome.CONFORMANCE_FAILURE


def test_modules_are_looked_through_torch_compile_and_gradients_are_compared(block: Block) -> None:
    verdict = quick(block, torch.compile(block, backend="eager"))
    assert (verdict.outcome, verdict.message) == (Outcome.ADMITTED, "")
    assert {"gradient up.weight", "gradient down.bias"} <= {
        finding.what for finding in verdict.findings if finding.check_name == "gradient"
    }


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such head")


class Words(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> str:
        return "done"


class Draws(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(x.shape)


UNFIT: dict[str, tuple[Callable[[], torch.nn.Module], Any, str]] = {
    "a reference that raises": (Raises, (X,), "no such head"),
    "outputs that are no tensors": (Words, (X,), "returns no tensor"),
    "inputs of another dtype": (Block, (X.double(),), "float64"),
    "inputs outside the ranges": (Block, (torch.full((3, 6), 1e300, dtype=torch.float64),), "declares"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_bad_input_is_one_clear_finding_and_never_a_pass(name: str) -> None:
    build, inputs, words = UNFIT[name]
    module = build()
    verdict = quick(module, module.forward, inputs)
    assert verdict.outcome is Outcome.UNDECIDED
    assert words in "\n".join(finding.message for finding in verdict.of_check("witness"))
    assert words in verdict.message


def test_a_program_that_is_random_is_never_passed_where_it_draws_other_numbers() -> None:
    module = Draws()
    verdict = quick(module, lambda x: x + torch.rand(x.shape))
    assert verdict.outcome is not Outcome.ADMITTED


def refused(*words: str) -> Any:
    return pytest.raises(Refusal, match=".*".join(words))


def _with_devices(*devices: str) -> dict[str, Any]:
    fields = contract_fields("float32")
    fields["devices"] = list(devices)
    return fields


def test_a_device_that_no_live_object_is_run_on_is_not_run_and_the_way_to_it_is_said(block: Block) -> None:
    verdict = quick(block, block.forward, contract=_with_devices("cpu", "cuda"))
    assert verdict.outcome is Outcome.UNDECIDED
    (absent,) = verdict.of_check("devices")
    assert (absent.status, absent.device) == (Status.NOT_RUN, "cuda")
    assert absent.fact == "cuda: live objects are judged on the cpu alone"
    assert "import strings" in absent.next_step


@pytest.mark.parametrize("seed", ["x", 1.5, True, None, -1, 1 << 63, 1 << 20_000], ids=lambda seed: str(type(seed)))
def test_a_seed_that_no_generator_begins_with_is_refused(block: Block, seed: Any) -> None:
    with refused("seed is ", "from 0 to 9223372036854775807", "correct seed"):
        certify(block, block.forward, (X,), level="quick", seed=seed)


@pytest.mark.parametrize(
    "seconds", [-1, 0, math.nan, math.inf, "5", True, [], 10**5000], ids=lambda seconds: str(type(seconds))
)
def test_seconds_that_are_no_time_are_refused_before_anything_starts(seconds: Any) -> None:
    with refused("seconds is ", "above 0 and at most 31536000", "correct seconds"):
        certify("nothing:here", "nothing:there", level="quick", seconds=seconds)


def test_what_cannot_be_judged_is_refused_in_one_line(block: Block) -> None:
    with refused("outputs", "did you mean"):
        quick(block, block.forward, contract=_with_a_typo())
    with refused("level", "thorough", "quick"):
        certify(block, block.forward, (X,), level="thorough")
    with refused("mode", "trainig", "training"):
        quick(block, block.forward, mode="trainig")
    with refused("does not exist|cannot be read|no such"):
        quick(block, block.forward, contract="nothing.yaml")
    with refused("contract 'bflaot16' is neither a file nor a dtype", "bfloat16"):
        quick(block, block.forward, contract="bflaot16")
    with refused("get their shape in its first call", "call it once"):
        quick(torch.nn.LazyLinear(3), block.forward)
    with refused("an object, the other a name"):
        quick(block, "package.module:factory")
    with refused("no example inputs"):
        quick(block, block.forward, None)
    with refused("cannot be called"):
        quick(block, 7)
    with refused("itself compiled"):
        quick(torch.compile(block, backend="eager"), block)
    with refused("uses the module 'block'"):
        quick(lambda x: block(x), block)
    with torch.autocast("cpu"), refused("autocast"):
        quick(block, block.forward)


t = torch.nn.Linear(6, 6)


def test_an_attribute_is_no_module_of_the_file_that_happens_to_have_its_name(block: Block) -> None:
    """In bytecode both are names; only what is loaded from around the function is used from there."""
    assert quick(lambda x: x.t() + 1, lambda x: x.t() + 1).outcome is Outcome.ADMITTED
    with refused("uses the module 't'"):
        quick(lambda x: t(x).t(), block)
    with refused("uses the module 't'"):
        quick(lambda x: [t(row) for row in x.t()], block)


def test_a_module_that_only_an_inner_function_uses_is_used(block: Block) -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return (lambda value: block(value))(x)

    with refused("uses the module 'block'"):
        quick(outer, block)


def _with_a_typo() -> dict[str, Any]:
    fields = contract_fields("float32")
    fields["budgets"]["outptus"] = fields["budgets"].pop("outputs")
    return fields
