"""Families that call a program otherwise: in other memory, at other sizes, of other dtypes, in another form of it."""

from typing import Any

import pytest
import torch
from gate_checked_models import Masked, Neighbours, Product, Promoted, Reader, Rows, Sized, seeded
from gate_evidence import evidence_of, failing, statuses, survives
from torch import nn

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.checks import (
    batch_invariance,
    equal_programs,
    ladder,
    layouts,
    output_set,
    promotion,
    zero_influence,
)
from tensorfarm.gate.setting import Facts, Level
from tensorfarm.gate.variant import IDENTITY, MORE_OUTPUTS, SPLIT_BATCH, varied

ARTIFACT = Facts("artifact", fixed_shapes=True, fixed_layouts=True)
INVARIANT = {"determinism.batch_invariant": True}


@pytest.mark.parametrize("fault", ["contiguous strides", "offset", "contiguous result"])
def test_a_layout_that_is_assumed_is_found(fault: str) -> None:
    evidence = evidence_of([layouts], Reader(), [seeded(4, 6)], Reader(fault), level=Level.STANDARD)
    assert failing(layouts, evidence) == {"output 0"}


def test_a_subject_of_fixed_layouts_may_refuse_and_may_not_answer_wrongly() -> None:
    class Refuses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.stride() != (6, 1) or x.storage_offset():
                raise ValueError("planted")
            return x * 2

    evidence = evidence_of([layouts], Reader(), [seeded(4, 6)], Refuses(), level=Level.STANDARD, facts=ARTIFACT)
    assert statuses(layouts, evidence) == set()
    faulty = Reader("contiguous strides")
    evidence = evidence_of([layouts], Reader(), [seeded(4, 6)], faulty, level=Level.STANDARD, facts=ARTIFACT)
    assert failing(layouts, evidence) == {"output 0"}


def test_a_read_beyond_the_input_is_found_although_its_value_is_multiplied_away() -> None:
    evidence = evidence_of([zero_influence], Reader(), [seeded(4, 6)], Reader("one more"), level=Level.STANDARD)
    assert {"output 0 in layout:nonzero_offset", "output 0 in layout:sliced_step"} & failing(zero_influence, evidence)
    evidence = evidence_of([zero_influence], Reader(), [seeded(4, 6)], Reader("one more"))
    assert {"output 0 in poison:nan", "output 0 in guard:nan"} & failing(zero_influence, evidence)
    assert statuses(zero_influence, evidence_of([zero_influence], Reader(), [seeded(4, 6)])) == {"pass"}


def test_masked_rows_that_leak_and_rows_that_touch_their_neighbours_are_found() -> None:
    inputs = (seeded(4, 6), torch.tensor([1.0, 0.0, 1.0, 1.0]))
    evidence = evidence_of([zero_influence], Masked(), inputs, Masked("product"), level=Level.STANDARD)
    assert any("layout" not in what for what in failing(zero_influence, evidence))
    assert not failing(zero_influence, evidence_of([zero_influence], Masked(), inputs))
    leaking = Neighbours("last row")
    evidence = evidence_of([zero_influence], Neighbours(), [seeded(4, 6)], leaking, level=Level.STANDARD)
    assert any("layout" not in what for what in failing(zero_influence, evidence))


def test_a_tail_that_is_wrong_at_some_sizes_is_found_and_named() -> None:
    evidence = evidence_of([ladder], Sized(), [seeded(4, 3)], Sized("tail"))
    assert failing(ladder, evidence) >= {"output 0 at 1", "output 0 at 5"}
    assert not failing(ladder, evidence) & {"output 0 at 0", "output 0 at 2", "output 0 at 3"}
    assert statuses(ladder, evidence_of([ladder], Sized(), [seeded(4, 3)])) == {"pass"}


def test_a_row_whose_sum_hangs_on_the_batch_is_found_only_where_invariance_is_declared() -> None:
    inputs, faulty = [seeded(4, 9) * 3], Rows("reversed in large batches")
    evidence = evidence_of([batch_invariance], Rows(), inputs, faulty, changes=INVARIANT)
    assert failing(batch_invariance, evidence)
    assert not failing(batch_invariance, evidence_of([batch_invariance], Rows(), inputs, changes=INVARIANT))
    assert not evidence_of([batch_invariance], Rows(), inputs, faulty).trials


def test_a_program_that_mixes_rows_has_no_row_to_compare() -> None:
    class Centred(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - x.mean(0)

    evidence = evidence_of([batch_invariance], Centred(), [seeded(4, 3)], changes=INVARIANT)
    assert statuses(batch_invariance, evidence) == set()


def test_a_result_of_another_dtype_is_found_in_a_mixture_of_dtypes() -> None:
    evidence = evidence_of([promotion], Promoted(), [seeded(5), seeded(5)], Promoted("float32"))
    assert "output 0 with args[0]:float64" in failing(promotion, evidence)
    assert statuses(promotion, evidence_of([promotion], Promoted(), [seeded(5), seeded(5)])) == {"pass"}


def test_a_form_that_is_compiled_otherwise_is_found() -> None:
    evidence = evidence_of([equal_programs], Sized(), [seeded(4, 3)], Sized("halves"))
    assert failing(equal_programs, evidence) == {"output 0"}
    evidence = evidence_of([output_set], Sized(), [seeded(4, 3)], Sized("hooks"))
    assert failing(output_set, evidence) == {"output 0"}
    honest = evidence_of([equal_programs, output_set], Sized(), [seeded(4, 3)])
    assert statuses(equal_programs, honest) == statuses(output_set, honest) == {"pass"}


def test_forms_are_compared_bit_for_bit_on_exact_integers() -> None:
    inputs = (seeded(4, 40), seeded(40, 4))
    evidence = evidence_of([equal_programs], Product(), inputs, Product("bfloat16"))
    exact = [item for item in equal_programs.check(evidence) if item.input_suite == "exact_integers"]
    assert "fail" in {item.status.value for item in exact}


@pytest.mark.parametrize("form", [IDENTITY, SPLIT_BATCH, MORE_OUTPUTS])
def test_a_form_of_a_module_without_tolerance_gives_what_the_module_gives(form: str) -> None:
    module, x = nn.Sequential(nn.ReLU(), nn.Flatten()), seeded(5, 4)
    found = varied(module, form)(x)
    own = found[0] if form == MORE_OUTPUTS else found
    assert torch.equal(own, module(x))
    if form == MORE_OUTPUTS:
        assert len(found[1]) == 2


def test_forms_keep_containers_keywords_and_tensors_without_axes() -> None:
    class Containers(nn.Module):
        def forward(self, pair: dict[str, torch.Tensor], *, scale: float) -> dict[str, object]:
            return {"x": [pair["x"] * scale], "size": pair["x"].sum(), "scale": scale}

    given = {"pair": {"x": seeded(4, 2)}, "scale": 2.0}
    for form in (IDENTITY, SPLIT_BATCH):
        found = varied(Containers(), form)(**given)
        assert torch.equal(found["x"][0], given["pair"]["x"] * 2)
        assert found["scale"] == 2.0


def test_an_unknown_form_is_refused_in_one_line() -> None:
    with pytest.raises(Refusal, match="variant 'upside_down' is unknown"):
        varied(nn.ReLU(), "upside_down")


class Noise(nn.Module):
    """Draws, and is wrong where its input is no leaf of the call, or is laid out otherwise."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = nn.functional.dropout(x, 0.3)
        wrong = (self.fault == "split" and x.shape[0] < 6) or (self.fault == "strides" and not x.is_contiguous())
        return kept * 1.01 if wrong else kept * 1


@pytest.mark.parametrize(("family", "fault"), [(equal_programs, "split"), (ladder, "split"), (layouts, "strides")])
def test_a_program_that_draws_is_compared_stream_for_stream(family: Any, fault: str) -> None:
    evidence = evidence_of([family], Noise(), [seeded(6, 8)], Noise(fault))
    assert failing(family, evidence)
    honest = evidence_of([family], Noise(), [seeded(6, 8)])
    assert statuses(family, honest) == {"pass"}
    assert survives(family, honest)
    own = {"rng.policy": "seeded_own_stream"}
    assert not failing(family, evidence_of([family], Noise(), [seeded(6, 8)], Noise(fault), changes=own))


def test_a_wrong_lowering_in_half_precision_shows_where_sums_of_signs_are_exact() -> None:
    class Halves(nn.Module):
        def __init__(self, fault: bool = False) -> None:
            super().__init__()
            self.fault = fault

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            product = x @ y
            return product * (1 + 2.0**-4) if self.fault and x.shape[0] < 8 else product

    inputs = [seeded(8, 61).bfloat16(), seeded(61, 5).bfloat16()]
    half = {"numerics.dtypes.inputs": "bfloat16", "inputs.exact_integers.int_bits": 8}
    evidence = evidence_of([equal_programs], Halves(), inputs, Halves(fault=True), changes=half)
    assert failing(equal_programs, evidence)
    assert not failing(equal_programs, evidence_of([equal_programs], Halves(), inputs, changes=half))
