"""A first look has fewer samples than the contract asks for; what does not pass is looked at with all of them."""

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gate_contract import CONTRACT
from gate_workshop import Workshop, contract, failing, program

from tensorfarm.gate.case import Case
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.reference import reference_of_program
from tensorfarm.gate.spread import first_look

SAMPLES = CONTRACT["oracle"]["monte_carlo"]["samples"]


def case_of(workshop: Workshop) -> Case:
    made = program("mlp")
    return Case.of({**workshop.case(made, workshop.artifact(made)), "level": "quick"}, "a version")


def sampled(case: Case, samples: int) -> dict[str, tuple[Expectation, ...]]:
    monte_carlo = replace(contract().monte_carlo, samples=samples)
    asked = replace(contract(), monte_carlo=monte_carlo)
    return expectations(reference_of_program(program("mlp")), case.trials.values(), asked, case.seed)


def alike(one: Expectation, other: Expectation) -> bool:
    return all(torch.equal(one.sigma[key], value) for key, value in other.sigma.items())


@pytest.mark.parametrize(("samples", "first"), [(2, 2), (3, 2), (4, 3), (12, 7), (1000, 501)])
def test_a_first_look_has_one_more_than_half_of_the_samples(samples: int, first: int) -> None:
    assert first_look(samples) == first


def test_a_second_look_is_as_wide_as_all_samples_say_and_only_where_it_was_asked_for(workshop: Workshop) -> None:
    case = case_of(workshop)
    first = case.expectations()
    surer = case.with_all_samples(frozenset({"forward"}), first)
    few, all_of_them = sampled(case, first_look(SAMPLES)), sampled(case, SAMPLES)
    assert alike(first["example"][0], few["example"][0])
    assert not alike(first["example"][0], all_of_them["example"][0])
    assert alike(surer["example"][0], all_of_them["example"][0])
    assert surer["example"][0].exact is first["example"][0].exact
    others = [name for name in first if name != "example"]
    assert others
    assert all(surer[name] is first[name] for name in others)


def test_what_failed_is_asked_again_by_the_spread_that_its_own_verdict_drew(workshop: Workshop, tmp_path: Path) -> None:
    """As a probe of a bisection asks: only the families that failed, of the oracle that lies there already."""
    mlp = program("mlp")
    cache = {"oracle_cache": str(tmp_path / "oracle")}
    wrong = {"before": "gate_vandals:scale_by_a_thousandth_more"}
    refused = workshop.verdict(workshop.case(mlp, workshop.artifact(mlp), **cache), **wrong)
    assert len(list((tmp_path / "oracle").iterdir())) == 2
    failed = sorted({row["check_name"] for row in refused["findings"] if row["status"] in ("fail", "undecidable")})
    probe = workshop.case(mlp, workshop.artifact(mlp), only=failed, **cache)
    prepared = workshop.result("prepare", probe)
    assert prepared["cached"]
    workshop.step("run", probe, wrong["before"])
    asked_again = workshop.decided(probe, prepared)
    assert failing(asked_again) == failing(refused)
    limits = [
        {
            (row["check_name"], row["what"], row["input_suite"], row["layout"]): row["limit_abs"]
            for row in verdict["findings"]
            if row["status"] == "fail"
        }
        for verdict in (refused, asked_again)
    ]
    assert limits[0] == limits[1]
    assert len(list((tmp_path / "oracle").iterdir())) == 2


def test_a_failure_is_told_with_the_limit_that_all_samples_give(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:scale_by_a_thousandth_more")
    rows = [row for row in verdict["findings"] if (row["check_name"], row["status"]) == ("forward", "fail")]
    (row,) = [row for row in rows if row["what"] == "output 0"]
    case = case_of(workshop)
    where, limits = tuple(row["worst_index"]), {}
    for samples in (first_look(SAMPLES), SAMPLES):
        expected = sampled(case, samples)["example"][0].expected("output:0")
        assert expected is not None
        assert expected.sigma is not None
        budget, unit = contract().outputs, torch.finfo(expected.eager.dtype).eps / 2
        size = float(expected.exact[where].abs())
        limits[samples] = budget.c * unit * size + budget.k * float(expected.sigma[where])
    assert row["limit_abs"] == pytest.approx(limits[SAMPLES], rel=1e-3)
    assert row["limit_abs"] != pytest.approx(limits[first_look(SAMPLES)], rel=1e-3)


@pytest.mark.skipif(os.name != "posix" or not sys.platform.startswith("linux"), reason="mallopt is glibc's")
@pytest.mark.parametrize("kept", [False, True])
def test_a_process_of_the_gate_faults_no_page_in_twice(kept: bool) -> None:
    """Forty blocks of 8 MB that are freed together, as the tensors of a run are."""
    place = importlib.import_module("tensorfarm.gate.heap").__file__
    code = f"""
import resource, runpy
if {kept}:
    runpy.run_path({place!r})["prepared"]()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [bytes([1]) * (8 << 20) for _ in range(40)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
    told = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert (int(told.stdout) < 1000) is kept
