"""Honest variants: each kind has a place, gives what the program gives up to rounding, and looks like it."""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from tensorfarm.contract.capture import capture
from tensorfarm.contract.program import Program
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.faults.catalogue import honest
from tensorfarm.gate.faults.fault import Change
from tensorfarm.gate.faults.subject import of_graph, of_module
from tensorfarm.gate.reference import reference_of_program

# Minutes of real oracle runs: the population, planted one fault after another.
pytestmark = pytest.mark.slow

POPULATION = Path(__file__).resolve().parents[2] / "benchmarks" / "population"
sys.path.insert(0, str(POPULATION))

SOURCES = (
    *("specimens:mlp", "specimens:attention", "specimens:classifier", "specimens:embedding", "specimens:totals"),
    "specimens:normed",
    *("specimens:broadcasting", "stateful:convnet", "stateful:history"),
)
# Of the largest value: nothing that is only ordered or rounded otherwise is further off in these small programs.
FAR = 1e-4
# Forms that round to the same bits here, whatever they do on the way.
MAY_AGREE = {"H33", "H40", "H41", "H43"}


@cache
def program(source: str) -> Program:
    return capture(source)


def places(kind: str) -> Iterator[tuple[Program, Change]]:
    (fault,) = [fault for fault in honest() if fault.id == kind]
    for source in SOURCES:
        for change in fault.changes(program(source)):
            yield program(source), change


def outputs(made: Program, change: Change | None) -> Returned:
    reference = reference_of_program(made)
    leaves = reference.arguments(made.inputs, {}, wide=False)
    live = change is not None and change.wrap is not None
    subject = of_module(reference.build, change, made.in_spec) if live else of_graph(made, change)
    torch.manual_seed(0)
    return subject.call(leaves)


@pytest.mark.parametrize("kind", [fault.id for fault in honest()])
def test_an_honest_kind_gives_what_the_program_gives_up_to_rounding(kind: str) -> None:
    found = list(places(kind))
    assert found
    other_bits = False
    for made, change in found:
        right, other = outputs(made, None), outputs(made, change)
        assert right.structure == other.structure
        for one, two in zip(right.leaves, other.leaves, strict=True):
            assert (one.dtype, one.shape, one.stride()) == (two.dtype, two.shape, two.stride()), change.site
            assert one.requires_grad == two.requires_grad, change.site
            assert (one - two).abs().max() <= FAR * one.abs().max(), change.site
            other_bits = other_bits or not torch.equal(one, two)
    assert other_bits or kind in MAY_AGREE, f"{kind} rounds as the original does everywhere"


def test_threads_are_what_they_were_after_a_variant_that_sets_them() -> None:
    before = torch.get_num_threads()
    for made, change in places("H43"):
        outputs(made, change)
        assert torch.get_num_threads() == before
