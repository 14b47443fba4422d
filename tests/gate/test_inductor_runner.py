"""An Inductor artifact answers from its own compile caches, or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gate_workshop import CANDIDATE, Workshop, program

from tensorfarm.contract.artifact import open_artifact, write_artifact
from tensorfarm.contract.digest import sha256_file


@pytest.fixture(scope="module")
def built(workshop: Workshop) -> Path:
    target = workshop.folder / "inductor"
    code = f"import sys; sys.path[:] = {sys.path!r}; import gate_inductor; gate_inductor.build(*sys.argv[1:])"
    saved = workshop.file_of(program("special"))
    ended = subprocess.run(
        [sys.executable, *workshop.isolation, "-W", "ignore", "-c", code, str(saved), str(target)],
        env=workshop.environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return target


def test_the_caches_answer_in_another_process_with_compiling_forbidden(workshop: Workshop, built: Path) -> None:
    case = workshop.case(program("special"), built / "whole", "inference")
    verdict = workshop.verdict(case)
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
    evidence = json.loads((Path(case["folder"]) / "main" / "report.json").read_text())["evidence"]
    assert evidence == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 1, "runtime": "inductor"}


def test_calls_of_other_shapes_are_refused_and_are_no_fault_of_loading(workshop: Workshop, built: Path) -> None:
    case = workshop.case(program("special"), built / "whole", "inference", level="standard")
    verdict = workshop.verdict(case)
    assert [row for row in verdict["findings"] if (row["check_name"], row["status"]) == ("loading", "fail")] == []
    assert "RecompileBlocked" in (Path(case["folder"]) / "main" / "report.json").read_text()


@pytest.mark.parametrize("damage", ["edited", "deleted", "added"])
def test_a_build_folder_that_was_tampered_with_is_put_right_and_blames_nobody(
    workshop: Workshop, built: Path, damage: str
) -> None:
    def judged() -> tuple[str, str]:
        verdict = workshop.verdict(workshop.case(program("special"), built / "whole", "inference"))
        return verdict["outcome"], verdict["message"]

    assert judged() == ("admitted", "")
    place = Path(workshop.environment["TENSORFARM_BUILD_ROOT"]) / CANDIDATE
    stamps = {path: path.stat().st_ino for path in place.rglob("*.so")}
    assert judged() == ("admitted", "")
    assert {path: path.stat().st_ino for path in place.rglob("*.so")} == stamps
    kernel = next(iter(stamps))
    before = kernel.read_bytes()
    if damage == "edited":
        kernel.write_bytes(b"no library")
    elif damage == "deleted":
        kernel.unlink()
    else:
        (kernel.parent / "another").write_text("planted")
    assert judged() == ("admitted", "")
    assert kernel.read_bytes() == before
    assert not (kernel.parent / "another").exists()


@pytest.mark.parametrize("absent", ["kernel", "entry"])
def test_a_cache_that_would_have_to_compile_is_a_failure(workshop: Workshop, built: Path, absent: str) -> None:
    verdict = workshop.verdict(workshop.case(program("special"), built / absent, "inference"))
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "recompile")
    assert "RecompileBlocked: loading tried to" in verdict["message"]


def test_an_artifact_of_another_build_root_says_how_to_make_it_loadable(workshop: Workshop, built: Path) -> None:
    whole = open_artifact(built / "whole", sha256_file(built / "whole"))
    moved = built / "moved"
    write_artifact(
        moved,
        semantic_hash=whole.semantic_hash,
        candidate_id=whole.candidate_id,
        runtime="inductor",
        options={**whole.options, "build_path": "/elsewhere/candidate"},
        graph=whole.graph,
        weights=whole.weights,
        manifest=whole.manifest,
    )
    verdict = workshop.verdict(workshop.case(program("special"), moved, "inference"))
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "error")
    assert "set TENSORFARM_BUILD_ROOT alike on every node" in verdict["message"]
