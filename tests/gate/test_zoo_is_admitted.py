"""Every program of the zoo, run by an honest runtime of another order, forward and backward."""

import pytest
from gate_workshop import Workshop, program

pytest.importorskip("tensorfarm.farm.zoo", reason="the isolated run of the gate's tests has no farm")

ZOO = (
    "language:bert",
    "language:gpt2",
    "language:llama",
    "language:t5",
    "vision:vit",
    "vision:convnet",
    "speech:whisper_encoder",
    "operators:suite",
)


@pytest.mark.parametrize("name", ZOO)
def test_a_model_of_the_zoo_is_admitted_though_its_sums_are_in_another_order(workshop: Workshop, name: str) -> None:
    verdict = workshop.judged(program(f"tensorfarm.farm.zoo.{name}"), before="gate_vandals:another_order")
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
