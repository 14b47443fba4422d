"""A graphics card is a device like any other: judged against the oracle, named where it is wrong, never guessed at.

What needs one is marked and says so where there is none; what must be said in its absence is tested everywhere else.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from gate_contract import contract_fields, contract_with

from tensorfarm.gate import Certificate, Outcome, Refusal, Status, certify
from tensorfarm.gate.devices import main_device, sessions_of
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.trial import MAIN

PROGRAMS = Path(__file__).parent / "gate_devices.py"
KERNELS = Path(__file__).parent / "gate_kernels.py"
BOTH, CARD = ("cpu", "cuda"), ("cuda",)
HERE = torch.cuda.is_available()

_BUILD = """
import torch, gate_devices
for name in ("layers", "wrong_everywhere"):
    module, (x,) = getattr(gate_devices, name)()
    module, x = module.cuda(), x.detach().cuda()
    with torch.no_grad():
        exported = torch.export.export(module, (x,))
    torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/{name}.pt2")
"""


def card(test: Any) -> Any:
    """For a test that needs an NVIDIA device."""
    return pytest.mark.gpu(pytest.mark.skipif(not HERE, reason="torch sees no CUDA device here")(test))


def factory(name: str, kind: str = "callable") -> dict[str, Any]:
    # One compiling thread: a pool of them for each session of each test is more than a machine has.
    settings = {"settings": {"inductor": {"compile_threads": 1}}} if kind == "compiled" else {}
    plain = {"factory": True} if kind == "callable" else {}
    return {"kind": kind, "source": f"{PROGRAMS}:{name}", **plain, **settings}


def kernels(name: str) -> dict[str, Any]:
    return {"kind": "triton", "source": f"{KERNELS}:{name}"}


def judged(
    original: str, subject: Mapping[str, Any], devices: tuple[str, ...], mode: str | None = None, **fields: Any
) -> Certificate:
    contract = contract_fields({"devices": list(devices), **fields})
    return certify(f"{PROGRAMS}:{original}", subject, contract=contract, mode=mode, level="quick")


def admitted(verdict: Certificate) -> bool:
    assert verdict.outcome is Outcome.ADMITTED, verdict.message
    return True


def failures(verdict: Certificate) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.status is Status.FAIL]


def families(verdict: Certificate) -> set[str]:
    return {finding.check_name for finding in failures(verdict)}


# Said of a card wherever it is, or is not


def test_the_main_session_is_on_the_cpu_unless_the_contract_lists_none() -> None:
    assert main_device(contract_with({"devices": ["cuda", "cpu/avx2"]})) == "cpu"
    alone = contract_with({"devices": ["cuda"]})
    assert (main_device(alone), sessions_of(alone)) == ("cuda", (MAIN,))


@pytest.mark.skipif(HERE, reason="there is a card here")
@pytest.mark.parametrize(("devices", "family"), [(BOTH, "devices"), (CARD, "loading")])
def test_a_card_that_is_not_here_is_not_run_and_never_a_pass(devices: tuple[str, ...], family: str) -> None:
    verdict = judged("product", factory("product"), devices)
    assert (verdict.outcome, verdict.status) == (Outcome.UNDECIDED, Status.NOT_RUN)
    assert "torch sees no CUDA device here" in verdict.message
    (absent,) = [finding for finding in verdict.of_check(family) if finding.status is Status.NOT_RUN]
    assert absent.device == "cuda"


@pytest.mark.slow
def test_a_kernel_in_the_interpreter_is_judged_as_any_other_program() -> None:
    assert admitted(judged("product", kernels("right"), ("cpu",)))
    assert {"forward", "exact_integers"} <= families(judged("product", kernels("wrong"), ("cpu",)))


def test_a_subject_that_dies_on_one_device_alone_fails_there() -> None:
    verdict = judged("layers", factory("dead_on_avx2"), ("cpu/default", "cpu/avx2"))
    if torch.cpu.get_capabilities().get("avx2"):
        (found,) = failures(verdict)
        assert (found.what, found.device) == ("subject in cpu-avx2", "cpu/avx2")
        assert ": SIGSEGV" in verdict.message


# With one


@card
@pytest.mark.parametrize("kind", ["callable", "compiled"])
def test_an_honest_module_is_admitted_on_both_devices_at_once(kind: str) -> None:
    verdict = judged("layers", factory("layers", kind), BOTH, "training")
    assert admitted(verdict)
    assert all(finding.n_elements for finding in verdict.of_check("forward"))
    seen = {finding.device for finding in verdict.of_check("devices") if finding.n_elements}
    assert seen == {"cuda"}


@card
def test_a_module_that_is_wrong_on_the_card_alone_fails_there() -> None:
    verdict = judged("layers", factory("wrong_on_cuda"), BOTH, "training")
    assert verdict.outcome is Outcome.CONFORMANCE_FAILURE
    assert {(finding.check_name, finding.device) for finding in failures(verdict)} == {("devices", "cuda")}
    assert "devices: cuda: output 0" in verdict.message


@card
def test_two_devices_that_agree_with_one_another_and_not_with_the_oracle_both_fail() -> None:
    verdict = judged("layers", factory("wrong_everywhere"), BOTH)
    assert {finding.device for finding in failures(verdict)} == {"cpu", "cuda"}


@card
def test_a_crash_on_the_card_alone_is_a_finding_there() -> None:
    verdict = judged("layers", factory("dead_on_cuda"), BOTH)
    assert [(finding.what, finding.device) for finding in failures(verdict)] == [("subject in cuda", "cuda")]


@card
@pytest.mark.parametrize(("original", "subject"), [("layers", "switches_tf32_on"), ("product", "tf32_product")])
def test_products_of_truncated_operands_are_not_float32(original: str, subject: str) -> None:
    assert families(judged(original, factory(subject), BOTH)) == {"devices", "process_state"}
    assert "forward" in families(judged(original, factory(subject), CARD))


@card
def test_exact_integers_show_truncated_operands_bit_for_bit() -> None:
    verdict = judged("product", factory("tf32_product"), BOTH)
    assert any(finding.input_suite == "exact_integers" and finding.device == "cuda" for finding in failures(verdict))
    assert "exact_integers" in families(judged("product", factory("tf32_product"), CARD))


@card
def test_a_convolution_as_torch_has_it_is_not_float32() -> None:
    assert "forward" in families(judged("convolution", factory("convolution"), CARD))


@card
def test_all_families_judge_the_card_where_the_contract_lists_nothing_else() -> None:
    verdict = judged("layers", factory("layers"), CARD, "training")
    assert admitted(verdict)
    assert {finding.device for finding in verdict.findings} == {"cuda"}


@card
def test_a_card_cannot_follow_the_cpu_s_random_numbers_and_need_not() -> None:
    told = judged("drops", factory("drops"), CARD)
    assert told.outcome is Outcome.UNDECIDED
    assert "cuda has a generator of its own" in told.message
    own = contract_fields({"devices": ["cuda"], "rng.policy": "seeded_own_stream"})
    assert admitted(certify(f"{PROGRAMS}:drops", factory("drops"), contract=own, level="standard"))


@card
@pytest.mark.parametrize("devices", [BOTH, CARD])
def test_a_kernel_runs_natively_on_the_card(devices: tuple[str, ...]) -> None:
    assert admitted(judged("product", kernels("right"), devices))
    assert {finding.device for finding in failures(judged("product", kernels("wrong"), devices))} == set(devices)


@card
def test_a_kernel_that_is_right_in_the_interpreter_alone_fails_on_the_card() -> None:
    verdict = judged("product", kernels("truncated_natively"), BOTH)
    assert {(finding.check_name, finding.device) for finding in failures(verdict)} == {("devices", "cuda")}


@card
def test_an_interpreter_that_the_environment_asks_for_is_not_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "forward" in families(judged("product", kernels("truncated_natively"), CARD))


@card
def test_a_package_for_the_card_is_loaded_and_judged_there(tmp_path: Path) -> None:
    start = f"import sys; sys.path[:] = {sys.path!r}; folder = {str(tmp_path)!r}\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", start + _BUILD], check=True, timeout=280)
    right, wrong = ({"kind": "aoti", "path": str(tmp_path / f"{name}.pt2")} for name in ("layers", "wrong_everywhere"))
    assert admitted(judged("layers", right, CARD))
    assert "forward" in families(judged("layers", wrong, CARD))
    elsewhere = judged("layers", right, ("cpu",))
    assert "this subject runs on cuda" in elsewhere.message


@card
def test_an_original_that_is_built_on_the_card_is_refused_in_one_line() -> None:
    with pytest.raises(Refusal, match="already_on_cuda makes tensors on cuda:0"):
        judged("already_on_cuda", factory("already_on_cuda"), CARD)
