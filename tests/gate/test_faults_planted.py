"""Planted faults: every kind does something at its place and nowhere else, and an equivalent one is recognised."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from gate_contract import contract_with

from tensorfarm.contract.capture import capture
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.calling import differentiable, observed
from tensorfarm.gate.cotangents import cotangents_of
from tensorfarm.gate.faults.activity import Activity, Probe, difference
from tensorfarm.gate.faults.catalogue import fault_of, faults, honest
from tensorfarm.gate.faults.fault import Mutant, plant
from tensorfarm.gate.faults.grafted import grafted
from tensorfarm.gate.faults.interpreted import Interpreted
from tensorfarm.gate.faults.subject import mutant_of, of_graph
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.reference import reference_of_program
from tensorfarm.gate.trial import Cotangent, Derivative

# Minutes of real oracle runs: the population, planted one fault after another.
pytestmark = pytest.mark.slow

POPULATION = Path(__file__).resolve().parents[2] / "benchmarks" / "population"
sys.path.insert(0, str(POPULATION))

# A program in which each kind is at work; several for kinds of one place, so that all are used.
WHERE = {
    **dict.fromkeys(("M01", "M12", "M18"), "specimens:square"),
    **dict.fromkeys(("M02", "M04", "M09", "M11", "M31", "M36", "M37"), "specimens:mlp"),
    **dict.fromkeys(("M05", "M06"), "specimens:normed"),
    **dict.fromkeys(("M03", "M22", "M23", "M24"), "specimens:views"),
    **dict.fromkeys(("M07", "M39"), "specimens:totals"),
    "M08": "specimens:long_sum",
    "M10": "specimens:casting",
    **dict.fromkeys(("M13", "M14", "M33", "M34", "M35"), "stateful:tuned"),
    "M15": "specimens:pooling",
    **dict.fromkeys(("M16", "M28"), "stateful:noisy"),
    "M17": "specimens:selection",
    **dict.fromkeys(("M19", "M20", "M21"), "stateful:history"),
    **dict.fromkeys(("M25", "M26", "M29"), "specimens:special"),
    "M27": "specimens:integer_arithmetic",
    "M30": "specimens:attention",
    "M32": "stateful:lookup",
    "M38": "specimens:rows",
    "M40": "specimens:mixed_dtypes",
}


@cache
def program(source: str) -> Program:
    return capture(source)


@cache
def probe(source: str) -> Probe:
    return Probe(program(source), contract_with(), "training")


def activities(fault: str, source: str, most: int = 8) -> list[Activity]:
    """Of every place of a kind in a program, up to the first that is active."""
    made = program(source)
    found: list[Activity] = []
    for seed in range(min(most, len(list(fault_of(fault).changes(made))))):
        found.append(probe(source).activity(mutant_of(made, fault, seed)))
        if found[-1].where:
            break
    return found


def test_there_are_forty_kinds_each_with_a_family_that_is_listed_for_it() -> None:
    assert [fault.id for fault in faults()] == [f"M{number:02}" for number in range(1, 41)]
    assert all(fault.families for fault in faults())
    assert not any(fault.families for fault in honest())
    assert WHERE.keys() == {fault.id for fault in faults()}


# A million terms in every trial take their time.
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault.id, marks=[pytest.mark.slow] if fault.id == "M08" else []) for fault in faults()],
)
def test_a_kind_is_planted_and_changes_bits(fault: str) -> None:
    found = activities(fault, WHERE[fault])
    assert found
    assert found[-1].where, f"{fault} is nowhere active in {WHERE[fault]}"
    assert found[-1].reached


@pytest.mark.parametrize("source", ["specimens:mlp", "stateful:history", "stateful:convnet", "specimens:attention"])
def test_a_program_run_without_a_change_is_the_captured_program(source: str) -> None:
    made = program(source)
    right = observed_with(made, None)
    again = observed_with(made, None)
    assert difference(right, again) == ""
    assert right.report.error == ""


def test_a_fault_changes_only_what_depends_on_its_site() -> None:
    """Sums over another axis are one output of seven; the others and their own bits stay."""
    made = program("specimens:square")
    fault = fault_of("M01")
    places = [change for change in fault.changes(made) if change.site.startswith("sum_1 ")]
    assert len(places) == 1
    right, wrong = observed_with(made, None), observed_with(made, replace(planted("M01", made), change=places[0]))
    changed = {key for key in right.tensors if not torch.equal(right.tensors[key], wrong.tensors[key])}
    assert changed == {"output:0"} | {key for key in changed if key.startswith("gradient:")}


def test_a_product_of_one_tensor_with_itself_has_no_wrong_order() -> None:
    made = program("specimens:square")
    count = len(list(fault_of("M04").changes(made)))
    mutants = [mutant_of(made, "M04", seed) for seed in range(count)]
    equivalent = [mutant for mutant in mutants if not probe("specimens:square").activity(mutant).where]
    assert [mutant.site.split(" ")[0] for mutant in equivalent] == ["matmul"]


def test_a_site_that_is_not_reached_is_told_from_one_that_changes_nothing() -> None:
    """Where no input has an offset in its storage the wrong operator runs and does nothing."""
    made = program("specimens:scattering")
    mutants = [mutant_of(made, "M24", seed) for seed in range(len(list(fault_of("M24").changes(made))))]
    (zeros,) = [mutant for mutant in mutants if mutant.site.startswith("zeros_like ")]
    assert probe("specimens:scattering").activity(zeros) == Activity("", True)


def test_successive_seeds_take_every_place_once_and_the_same_ones_again() -> None:
    made = program("specimens:special")
    fault = fault_of("M25")
    count = len(list(fault.changes(made)))
    sites = [mutant_of(made, "M25", seed).site for seed in range(count)]
    assert len({*sites}) == count
    assert sites == [mutant_of(made, "M25", seed).site for seed in range(count, 2 * count)]


def test_a_kind_without_a_place_is_not_planted() -> None:
    assert plant(fault_of("M16"), program("specimens:mlp"), 0) is None
    with pytest.raises(Refusal, match="has no place for M16"):
        mutant_of(program("specimens:mlp"), "M16", 0)
    with pytest.raises(Refusal, match="'M99' is unknown"):
        fault_of("M99")


def test_every_changed_graph_is_a_legal_graph() -> None:
    for source in ("stateful:history", "stateful:convnet"):
        for change in fault_of("M21").changes(program(source)):
            assert change.graph is not None
            change.graph.validate()


def test_a_graft_has_the_bits_of_one_and_the_derivatives_of_the_other() -> None:
    x = torch.tensor([0.0, -0.0, torch.inf, 2.0], requires_grad=True)
    value = grafted(x * 1, x * 3)
    assert torch.equal(value.signbit(), x.signbit())
    (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    assert torch.equal(gradient, torch.full((4,), 3.0))


def test_weights_of_an_interpreted_program_lie_under_their_qualified_names() -> None:
    made = program("specimens:mlp")
    assert {name for name, _ in Interpreted(made).named_parameters()} == {
        "up.weight",
        "up.bias",
        "down.weight",
        "down.bias",
    }


def planted(fault: str, made: Program) -> Mutant:
    return mutant_of(made, fault, 0)


def observed_with(made: Program, mutant: Mutant | None) -> Observation:
    """The example's call, with gradients."""
    reference = reference_of_program(made)
    leaves: Mapping[str, Any] = reference.arguments(made.inputs, {}, wide=False)
    subject = of_graph(made, None if mutant is None else mutant.change)

    def vectors(outputs: Any) -> Mapping[int, torch.Tensor]:
        return cotangents_of(outputs, differentiable(outputs), Cotangent.NORMAL, 0)

    return observed(subject, leaves, Derivative.VJP, vectors, 0)
