"""Sites of Inductor: numbered in the order of asking, switched one by one, and found again in the manifest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inductor_workshop import Compiled, compiled, mlp

from tensorfarm.compiler.sequence import SWITCHED_OFF
from tensorfarm.contract.manifest import Decision, Entry, EntryKind
from tensorfarm.contract.program import Program

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

PLANTED = "inductor{post_grad=inductor_planted.subtract_instead}"
CUSTOM = "post_grad_custom_post_pass"


def loaded(case: Compiled) -> dict[str, Any]:
    done = case.loaded()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def place(entry: Entry) -> tuple[str, ...]:
    return entry.name, entry.site, entry.attributes["subsystem"], entry.attributes["stage"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return compiled(tmp_path_factory.mktemp("planted"), mlp(), "inference", PLANTED)


def test_sites_are_numbered_without_a_gap_over_forward_and_backward(trained: Compiled) -> None:
    sites = trained.sites
    assert trained.answer["n_sites"] == len(sites) > 40
    assert [entry.attributes["ordinal"] for entry in sites] == [str(number) for number in range(len(sites))]
    assert {entry.kind for entry in sites} == {EntryKind.SITE}
    assert len({place(entry) for entry in sites}) == len(sites)
    seen = {(entry.attributes["subsystem"], entry.attributes["stage"]) for entry in sites}
    assert seen == {
        ("pre_grad_passes", "forward"),
        ("decomposition", "joint"),
        ("joint_graph_passes", "joint"),
        ("post_grad_passes", "forward"),
        ("post_grad_passes", "backward"),
        ("lowerings", "forward"),
        ("lowerings", "backward"),
    }


def test_a_site_names_operator_nodes_and_where_they_came_from(trained: Compiled) -> None:
    lowered = [entry for entry in trained.sites if entry.attributes["subsystem"] == "lowerings"]
    assert "aten.addmm.default" in {entry.name for entry in lowered}
    assert all(entry.attributes["nodes"] for entry in lowered)
    decomposed = [entry for entry in trained.sites if entry.attributes["subsystem"] == "decomposition"]
    assert ("aten.gelu.default", "gelu") in {(entry.name, entry.attributes["origins"]) for entry in decomposed}


def test_with_everything_off_the_program_is_still_right_and_loads_without_compiling(tmp_path: Path) -> None:
    case = compiled(tmp_path, mlp(), "training", switches="none")
    assert {(entry.decision, entry.reason) for entry in case.sites} == {(Decision.REFUSED, SWITCHED_OFF)}
    required = [entry for entry in case.artifact.manifest.entries if entry.attributes.get("required") == "yes"]
    assert "stable_sort" in {entry.name for entry in required}
    seen = loaded(case)
    assert seen["evidence"] == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 2}
    assert seen["worst"] < 1e-5


def test_a_users_wrong_pass_is_found_at_its_site_and_gone_with_it(tmp_path: Path, planted: Compiled) -> None:
    (culprit,) = [entry for entry in planted.sites if entry.name == CUSTOM]
    assert culprit.attributes["custom"] == "inductor_planted.subtract_instead"
    assert culprit.attributes["nodes"]
    assert culprit.attributes["origins"]
    assert loaded(planted)["worst"] > 1e-3
    off = f"all but {culprit.attributes['ordinal']}"
    without = compiled(tmp_path, mlp(), "inference", PLANTED, off)
    assert [entry.name for entry in without.sites if entry.reason == SWITCHED_OFF] == [CUSTOM]
    assert loaded(without)["worst"] < 1e-5


@pytest.mark.slow
def test_an_operator_without_its_decomposition_is_called_as_it_is(tmp_path: Path, trained: Compiled) -> None:
    culprit = next(entry for entry in trained.sites if entry.name == "aten.gelu.default")
    assert culprit.attributes["subsystem"] == "decomposition"
    case = compiled(tmp_path, mlp(), "training", switches=f"all but {culprit.attributes['ordinal']}")
    assert [entry.name for entry in case.sites if entry.reason] == ["aten.gelu.default"]
    assert "aten.gelu.default" not in {e.name for e in case.sites if e.attributes["subsystem"] == "lowerings"}
    assert loaded(case)["worst"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 40, 80])
def test_with_the_first_n_on_a_compilation_is_the_full_one_up_to_its_nth_site(
    tmp_path: Path, trained: Compiled, n: int
) -> None:
    partial = compiled(tmp_path, mlp(), "training", switches=f"first {n}")
    assert partial.sites[:n] == trained.sites[:n]
    assert place(partial.sites[n]) == place(trained.sites[n])
    assert {entry.reason for entry in partial.sites[n:]} == {SWITCHED_OFF}
    assert loaded(partial)["worst"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("name", ["vision:convnet", "language:bert"])
def test_models_are_right_with_everything_off(
    tmp_path: Path, zoo: Callable[[str], Program], name: str, mode: str
) -> None:
    case = compiled(tmp_path, zoo(name), mode, switches="none")
    assert case.answer["n_sites"] > 40
    assert loaded(case)["worst"] < 1e-3
