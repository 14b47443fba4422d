"""Two artifacts, compiled for real, differ in one planted thing: it is named first; swapping them swaps the words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from report_facts import SWEEP, started, submitted, write

from tensorfarm.compiler.compile import compile_candidate
from tensorfarm.contract import events as e
from tensorfarm.contract.capture import captured
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Manifest
from tensorfarm.contract.program import Program
from tensorfarm.farm.app.difference import Aspect, Side, differences
from tensorfarm.farm.app.explain import explain
from tensorfarm.farm.store.layout import StoreLayout

Farm = Callable[..., tuple[int, str, str]]
Compiled = Callable[..., dict[str, Any]]


class Twice(torch.nn.Module):
    """Two equal products, which ``cse`` makes one of, and a scale that tells programs apart."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.scale) + torch.relu(x * self.scale)


def program(scale: float = 2.0) -> Program:
    return captured("twice", torch.export.export(Twice(scale), (torch.ones(2, 3),), strict=False))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("explain")


@pytest.fixture(scope="module")
def build(folder: Path) -> Compiled:
    """Compiles a program as asked and returns the compiler's answer; artifacts lie in one folder."""

    def made(pipeline: str = "fx:cse,dce", scale: float = 2.0, **changed: Any) -> dict[str, Any]:
        path = folder / f"{scale}.program"
        subject = program(scale)
        subject.save(path)
        request = {
            "program": str(path),
            "program_sha256": sha256_file(path),
            "candidate_id": "c0ffee".ljust(64, "0"),
            "semantic_hash": subject.semantic_hash,
            "mode": "inference",
            "pipeline": pipeline,
            "target": "cpu/any",
            "toolchain": {"torch": "2.13", "g++": "12"},
            "built": str(folder),
            "python_path": [],
            "threads": 1,
        }
        return compile_candidate(request | changed)

    return made


def causes(layout: StoreLayout, one: dict[str, Any], other: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    found = explain(layout.root, one["uri"], other["uri"])
    return found.cause, [(item.aspect, item.name) for item in found.differences]


def test_another_pipeline_is_named_with_the_pass_and_its_sites(layout: StoreLayout, build: Compiled) -> None:
    cause, found = causes(layout, build("fx:cse,dce"), build("fx:dce"))
    assert cause == "asked for differently: pipeline is fx:cse,dce and fx:dce; they differ from pass cse on"
    assert ("pass", "cse") in found
    assert any(aspect == "site" and name.startswith("cse at ") for aspect, name in found)
    assert found[0] == ("pipeline", "pipeline")


def test_a_site_that_was_switched_off_is_the_decision_that_differs(layout: StoreLayout, build: Compiled) -> None:
    found = explain(layout.root, build()["uri"], build(switches="all but 0")["uri"])
    assert found.cause == "same request, other decisions: they differ from pass cse on"
    site = next(item for item in found.differences if item.aspect is Aspect.SITE)
    assert site.name.startswith("cse at ")
    assert (site.a, site.b) == ("applied", "refused: switched off")


def test_the_same_passes_in_another_order_are_called_that(layout: StoreLayout, build: Compiled) -> None:
    found = explain(layout.root, build("fx:cse,dce")["uri"], build("fx:dce,cse")["uri"])
    order = next(item for item in found.differences if item.name == "order")
    assert (order.a, order.b) == ("cse,dce", "dce,cse")


def test_another_toolchain_that_decides_alike_says_both(layout: StoreLayout, build: Compiled) -> None:
    cause, found = causes(layout, build(), build(toolchain={"torch": "2.11", "g++": "12"}))
    assert cause == "asked for differently: toolchain torch is 2.13 and 2.11; both end in the same graph"
    assert found == [("toolchain", "torch")]


def test_another_program_is_said_before_anything_else(layout: StoreLayout, build: Compiled) -> None:
    cause, found = causes(layout, build(), build("fx:dce", scale=3.0))
    assert cause.startswith("they compute different programs: ")
    assert found[0] == ("program", "semantic hash")
    assert ("pipeline", "pipeline") in found


def test_one_artifact_twice_is_the_same(layout: StoreLayout, build: Compiled, farm: Farm) -> None:
    uri = build()["uri"]
    code, out, err = farm("explain", uri, uri)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "the same artifact"


def test_candidates_that_differ_in_nothing_that_was_built_say_so(layout: StoreLayout, build: Compiled) -> None:
    cause, found = causes(layout, build(), build(candidate_id="beef".ljust(64, "0")))
    assert (found, cause.startswith("same request and decisions, other bytes")) == ([], True)


def stored(layout: StoreLayout, answer: dict[str, Any], program_name: str, candidate_id: str, **facts: Any) -> None:
    """Put an artifact where a sweep would, with the events that tell of it."""
    sha256 = answer["artifact_sha256"]
    os.link(answer["uri"], layout.built / f"{sha256}.artifact")
    about = submitted(program_name, candidate_id=candidate_id, **facts)
    compiled = e.CandidateCompiled(SWEEP, about.subject, candidate_id, "h", sha256, 1, "built/x", 1.0)
    write(layout, (0, started()), (1, about), (2, compiled))


@pytest.fixture
def two_stored(layout: StoreLayout, build: Compiled) -> tuple[str, str]:
    """Two candidates of one program in a store, judged under other contracts; their artifacts' sha256."""
    ids = ["aaaa1".ljust(64, "0"), "aaaa2".ljust(64, "0")]
    answers = [build(candidate_id=name) for name in ids]
    for answer, name, contract in zip(answers, ids, ("loose", "tight"), strict=True):
        stored(layout, answer, name[:5], name, contract_hash=contract)
    return answers[0]["artifact_sha256"], answers[1]["artifact_sha256"]


def test_what_only_the_store_knows_is_compared_too(two_stored: tuple[str, str], farm: Farm) -> None:
    code, out, err = farm("explain", two_stored[0][:16], "aaaa2")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "asked for differently: contract is loose and tight; both end in the same graph"


def test_a_cell_of_a_sweep_names_its_artifact(two_stored: tuple[str, str], farm: Farm) -> None:
    code, out, _ = farm("explain", f"{SWEEP}:aaaa1/fx:dce", "aaaa2", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["a"], found["b"]) == two_stored
    assert found["differences"][0]["aspect"] == "contract"


def test_a_file_of_a_known_candidate_has_the_stores_facts(
    two_stored: tuple[str, str], layout: StoreLayout, farm: Farm
) -> None:
    files = [str(layout.built / f"{sha256}.artifact") for sha256 in two_stored]
    assert farm("explain", *files)[1].startswith("asked for differently: contract is loose and tight")


def test_a_prefix_of_two_artifacts_is_refused_with_both(two_stored: tuple[str, str], farm: Farm) -> None:
    code, out, err = farm("explain", "aaaa", "aaaa2")
    assert (code, out) == (2, "")
    assert "names 2 artifacts" in err
    assert all(sha256[:16] in err for sha256 in two_stored)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ffff0000", "names no artifact"),
        ("aa", "too short"),
        ("nowhere.artifact", "there is no file"),
        ("nightly-1:other/fx", "has no artifact"),
    ],
)
def test_what_names_nothing_is_refused_in_one_line(
    two_stored: tuple[str, str], farm: Farm, name: str, said: str
) -> None:
    code, out, err = farm("explain", "aaaa1", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_an_artifact_whose_file_is_gone_is_refused(
    two_stored: tuple[str, str], layout: StoreLayout, farm: Farm
) -> None:
    (layout.built / f"{two_stored[1]}.artifact").unlink()
    code, _, err = farm("explain", "aaaa1", "aaaa2")
    assert code == 2
    assert f"artifact {two_stored[1][:12]} is gone" in err


def test_bytes_that_are_no_artifact_are_refused(tmp_path: Path, build: Compiled, farm: Farm) -> None:
    (tmp_path / "text.artifact").write_text("no bundle")
    code, _, err = farm("explain", build()["uri"], str(tmp_path / "text.artifact"))
    assert (code, err.count("\n")) == (2, 1)
    assert "not a bundle" in err


names = st.sampled_from(["cse", "dce", "fold"])
entries = st.lists(
    st.builds(
        Entry,
        st.sampled_from(EntryKind),
        names,
        st.sampled_from(Decision),
        site=st.sampled_from(["p", "q"]),
        ir_hash_after=st.sampled_from(["1", "2"]),
    ),
    max_size=5,
).map(tuple)
manifests = st.builds(
    Manifest, names, names, st.dictionaries(names, names, max_size=2), st.just("g"), st.sampled_from("gh"), entries
)
sides = st.builds(Side, st.text("ab", min_size=4, max_size=4), manifests, weights=st.dictionaries(names, names))


@given(sides, sides)
def test_swapping_the_sides_swaps_what_is_said_of_them(a: Side, b: Side) -> None:
    forth, back = differences(a, b), differences(b, a)
    assert {(item.aspect, item.name, item.a, item.b) for item in forth} == {
        (item.aspect, item.name, item.b, item.a) for item in back
    }
    assert all(item.a != item.b for item in forth)
    order = list(Aspect)
    assert [order.index(item.aspect) for item in forth] == sorted(order.index(item.aspect) for item in forth)


@given(sides)
def test_an_artifact_differs_from_itself_in_nothing_whatever_its_address(side: Side) -> None:
    assert differences(side, replace(side, sha256="other")) == []
