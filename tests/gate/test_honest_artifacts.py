"""Nothing that is right is refused: the program's own graph, and the same sums in another order."""

from pathlib import Path

import gate_programs
import pytest
import torch
from gate_workshop import Workshop, program

PROGRAMS = ("mlp", "attention", "batch_norm", "counts", "special", "casting", "gate_models:bert", "gate_models:llama")
TRAINED = ("mlp", "attention", "batch_norm", "casting", "gate_models:bert", "gate_models:llama")


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_honest_artifact_is_admitted_for_inference(workshop: Workshop, name: str) -> None:
    verdict = workshop.judged(program(name), mode="inference")
    assert (verdict["outcome"], verdict["status"], verdict["message"]) == ("admitted", "pass", "")


@pytest.mark.parametrize("name", TRAINED)
def test_an_honest_artifact_is_admitted_for_training(workshop: Workshop, name: str) -> None:
    verdict = workshop.judged(program(name), mode="training")
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
    assert sum(row["n_elements"] for row in verdict["findings"] if row["check_name"] == "gradient") > 0


@pytest.mark.parametrize("name", TRAINED)
def test_adding_in_another_order_is_not_a_fault(workshop: Workshop, name: str) -> None:
    verdict = workshop.judged(program(name), before="gate_vandals:another_order")
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")


def test_an_exported_program_is_judged_by_itself(workshop: Workshop, tmp_path: Path) -> None:
    module, inputs = gate_programs.batch_norm()
    place = tmp_path / "batch_norm.pt2"
    torch.export.save(torch.export.export(module, inputs, strict=False), place)
    verdict = workshop.judged(program(str(place)))
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
