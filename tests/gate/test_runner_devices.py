"""Devices that a contract names are sessions: levels of this CPU stand in for machines that are not here."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gate_contract import contract_with
from gate_runners import Runners, artifact, shared
from gate_subjects import x

from tensorfarm.contract.capture import capture
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.devices import enter, environment_of, present, sessions_of
from tensorfarm.gate.facts import facts_of
from tensorfarm.gate.trial import MAIN

SOURCE = Path(__file__).parent / "gate_subjects.py"
LEVELS = ("cpu/default", "cpu/avx2", "cpu/avx512")


@pytest.fixture(scope="module")
def runners() -> Runners:
    return shared()


def subject(name: str) -> dict[str, Any]:
    return {"kind": "callable", "source": f"{SOURCE}:{name}"}


def here(*devices: str) -> list[str]:
    return [device for device in devices if not present(device)]


def test_each_device_of_a_contract_is_a_session_and_plain_cpu_is_the_main_one() -> None:
    assert sessions_of(contract_with({"devices": ["cpu"]})) == (MAIN,)
    sessions = sessions_of(contract_with({"devices": list(LEVELS)}))
    assert [(session.name, session.device) for session in sessions] == [
        ("cpu-default", "cpu/default"),
        ("cpu-avx2", "cpu/avx2"),
        ("cpu-avx512", "cpu/avx512"),
    ]
    assert [session.environment["ATEN_CPU_CAPABILITY"] for session in sessions] == ["default", "avx2", "avx512"]
    assert environment_of("cpu") == {}


def test_a_device_that_is_not_here_says_why_and_one_that_nobody_knows_is_refused() -> None:
    assert present("cpu") == present("cpu/default") == ""
    assert (present("cuda") == "") is torch.cuda.is_available()
    assert torch.cuda.is_available() or present("cuda/sm_90") == "torch sees no CUDA device here"
    with pytest.raises(Refusal, match="the device 'cpu/avx1024' is unknown"):
        present("cpu/avx1024")


def test_a_fault_on_one_level_alone_is_seen_there_and_nowhere_else(runners: Runners) -> None:
    """The parent has imported torch; its forks are still held to the level that they are told."""
    wrong = {
        level: not torch.equal(runners.ran(subject("goes_wrong_on_avx2"), (x(),), device=level).output(), x() * 2)
        for level in here(*LEVELS)
    }
    assert wrong == {level: level == "cpu/avx2" for level in here(*LEVELS)}


def test_a_level_that_comes_after_the_first_operator_is_refused(runners: Runners) -> None:
    told = enter_after_an_operator.__name__
    for level in here("cpu/default"):
        assert runners.told({"device": "cpu", "call": f"test_runner_devices:{told}", "level": level}) == 0


def enter_after_an_operator(order: dict[str, Any]) -> None:
    """In a child of the parent: torch has chosen its kernels by then."""
    torch.ones(3).exp()
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        return
    with pytest.raises(Refusal, match="before the first operator"):
        enter(order["level"])


@pytest.mark.slow
def test_inductor_writes_code_for_the_level_that_its_process_is_held_to(runners: Runners) -> None:
    for level in here(*LEVELS):
        order = {"device": level, "call": "test_runner_devices:vector_width_is_the_level_s"}
        assert runners.told(order) == 0


def vector_width_is_the_level_s(order: dict[str, Any]) -> None:
    """In a child: where vectors are off there is no instruction set to write code for."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa  # asks the C++ compiler, in this child alone

    picked = pick_vec_isa()
    widths = {"cpu/default": 0, "cpu/avx2": 256, "cpu/avx512": 512}
    assert (picked.bit_width() if picked else 0) == widths[order["device"]]


def test_facts_hang_on_the_kind_and_an_artifact_s_on_its_runtime(tmp_path: Path) -> None:
    compiled = facts_of({"kind": "compiled"})
    assert (compiled.module, compiled.guarded, compiled.fixed_shapes, compiled.trainable) == (True, True, False, True)
    for kind in ("aoti", "onnx", "triton"):
        assert (facts_of({"kind": kind}).trainable, facts_of({"kind": kind}).fixed_shapes) == (False, True)
    held = artifact(capture(f"{SOURCE}:small"), tmp_path / "artifact", "onnxruntime")
    assert facts_of(held).trainable is False
    assert facts_of({**held, "runtime": "graph"}).trainable is True
    assert facts_of({"kind": "callable"}, isolated=False).isolated is False
    for unknown in ({"kind": "guess"}, {"kind": "artifact", "runtime": "guess"}):
        with pytest.raises(Refusal, match="'guess' of a subject is unknown"):
            facts_of(unknown)
