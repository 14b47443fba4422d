"""The import seal, in processes of its own: what is sealed cannot be loaded, and every attempt is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gate_workshop import Workshop, program

from tensorfarm.gate import seal
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, Seal

PREAMBLE = """
import importlib, json
from tensorfarm.gate import seal
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, install

def attempt(name):
    try:
        importlib.import_module(name)
    except ImportError as error:
        return type(error).__name__
    return "loaded"
"""


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    flags = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    return subprocess.run(
        [sys.executable, *flags, "-c", path + PREAMBLE + code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("tensorfarm.compiler", True),
        ("tensorfarm.compiler.passes.dce", True),
        ("tensorfarm.compilers", False),
        ("tensorfarm.farm", False),
        ("tensorfarm.farm.engine.pool", True),
        ("tensorfarm.farm.zoo.language", False),
        ("tensorfarm.gate.oracle", False),
        ("torch._inductor.lowering", True),
        ("torch._inductor.config", False),
    ],
)
def test_the_seal_covers_compilers_and_the_farm_but_not_its_programs(name: str, covered: bool) -> None:
    assert Seal((*COMPILERS, *CODE_GENERATORS)).covers(name) is covered


def test_sealed_modules_cannot_be_loaded_and_attempts_are_kept() -> None:
    ended = in_a_process("""
seal = install((*COMPILERS, *CODE_GENERATORS))
told = [attempt(name) for name in ("tensorfarm.compiler", "torch._inductor.graph", "tensorfarm.cost_model", "decimal")]
print(json.dumps([told, seal.evidence()]))
""")
    assert ended.returncode == 0, ended.stderr
    told, evidence = json.loads(ended.stdout)
    assert told == ["Sealed", "Sealed", "Sealed", "loaded"]
    assert evidence["attempts"] == ["tensorfarm.compiler", "torch._inductor.graph", "tensorfarm.cost_model"]
    assert len(evidence["modules_sha256"]) == 64


def test_a_process_that_already_holds_a_code_generator_is_no_judge() -> None:
    ended = in_a_process("""
import sys
sys.modules["torch._inductor.lowering"] = sys
install((*COMPILERS, *CODE_GENERATORS))
""")
    assert ended.returncode == 1
    assert "already holds torch._inductor" in ended.stderr
    assert "run the gate in a process of its own" in ended.stderr


def test_a_verdict_carries_the_seal_as_evidence(workshop: Workshop) -> None:
    attestation = json.loads(workshop.judged(program("mlp"), mode="inference")["attestation"])
    assert set(COMPILERS) | set(CODE_GENERATORS) < set(attestation["seal"]["sealed"])
    assert attestation["seal"]["launcher"] == []
    assert attestation["torch"]


def test_a_subjects_process_never_loads_the_judge() -> None:
    ended = in_a_process("""
import sys
import tensorfarm.gate.subject.run, tensorfarm.gate.subject.graph
judges = ("tensorfarm.gate.judge", "tensorfarm.gate.oracle", "tensorfarm.gate.checks")
print([name for name in sys.modules if name.startswith(judges)])
""")
    assert ended.stdout.strip() == "[]"


def test_the_gate_names_no_other_room_in_its_source() -> None:
    for path in Path(seal.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for room in ("compiler", "cost_model", "bisect", "farm"):
            assert f"from tensorfarm.{room}" not in text, path
            assert f"import tensorfarm.{room}" not in text, path
