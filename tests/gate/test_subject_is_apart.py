"""A subject's process is its own: what it does there changes nothing but what it reports."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gate_workshop import CANDIDATE, Workshop, failing, program

from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.exchange import BEGUN, OUTPUTS, REPORT
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import read_tensors
from tensorfarm.gate import expectation
from tensorfarm.gate.case import Case
from tensorfarm.gate.indexed_file import IndexedFile
from tensorfarm.gate.session_files import placed
from tensorfarm.gate.subject.load import load_artifact
from tensorfarm.gate.trial import MAIN
from tensorfarm.gate.whole_run import certify_case


def comparable(verdict: dict[str, object]) -> dict[str, object]:
    """A verdict without what no two runs share: wall times, and the process that judged."""
    rows = [{key: value for key, value in row.items() if key != "wall_ns"} for row in verdict["findings"]]  # type: ignore
    return {**verdict, "attestation": "", "findings": rows}


def test_patching_torch_changes_nothing_in_the_verdict(workshop: Workshop) -> None:
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp))
    honest = workshop.verdict(case)
    (Path(case["folder"]) / MAIN.name / REPORT).unlink()
    patched = workshop.verdict(case, "gate_vandals:patch_torch")
    assert honest["outcome"] == "admitted"
    assert comparable(patched) == comparable(honest)


def test_patching_torch_does_not_save_wrong_values(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), mode="inference", before="gate_vandals:patch_torch_and_lie")
    assert failing(verdict) == {("forward", "output 0"), ("forward", "output 1")}


def test_a_segfault_is_a_finding_that_names_the_signal(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:segfault")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "crash")
    assert verdict["message"] == "loading: subject: it died in call 1 of 1 of trial example: SIGSEGV"


def test_a_subject_that_exits_is_a_crash(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:exit_early")
    told = "loading: subject: it died in call 1 of 1 of trial example: exit code 3"
    assert (verdict["outcome_kind"], verdict["message"]) == ("crash", told)


def test_an_exception_of_the_subject_is_a_finding(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:raise_an_error")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "errors")
    assert "ValueError: no kernel for this shape" in verdict["message"]


def test_files_that_cannot_be_read_are_a_finding_and_never_the_end_of_the_judge(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:write_junk")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "error")
    assert "it left files that cannot be read" in verdict["message"]


@pytest.mark.parametrize("number", ["9" * 5000, "1", "-1", "0\n", ""])
def test_a_trace_that_names_no_call_tells_no_place(workshop: Workshop, number: str) -> None:
    mlp, death = program("mlp"), {"kind": "signal", "message": "SIGSEGV"}
    case = Case.of({**workshop.case(mlp, workshop.artifact(mlp)), "level": "quick"}, "a version")
    (case.folder / MAIN.name).mkdir()
    (case.folder / MAIN.name / BEGUN).write_text(f"example|{number}")
    assert placed(case, MAIN.name, death) == death


def test_the_farm_may_say_that_the_subject_ran_out_of_time(workshop: Workshop) -> None:
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp))
    prepared = workshop.result("prepare", case)
    deaths = {"tensorfarm.gate.subject.run:run": {"kind": "timeout", "message": "60 seconds", "status": "died"}}
    verdict = workshop.decided(case, prepared, deaths)
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "timeout")


def test_the_judge_computes_the_oracle_before_the_subject_runs_and_only_once(
    workshop: Workshop, tmp_path: Path
) -> None:
    mlp = program("mlp")
    cache = {"oracle_cache": str(tmp_path)}
    first = workshop.case(mlp, workshop.artifact(mlp), **cache)
    prepared = workshop.result("prepare", first)
    (kept,) = tmp_path.iterdir()
    stamp = kept.stat().st_mtime_ns
    assert prepared["cached"] is False
    second = workshop.case(mlp, workshop.artifact(mlp), **cache)
    assert workshop.result("prepare", second)["cached"] is True
    assert kept.stat().st_mtime_ns == stamp
    assert comparable(workshop.verdict(first)) == comparable(workshop.verdict(second))


def test_another_contract_seed_or_mode_is_another_expectation(workshop: Workshop, tmp_path: Path) -> None:
    mlp = program("mlp")
    wider = json.loads(json.dumps(workshop.case(mlp, workshop.artifact(mlp))["contract"]))
    wider["budgets"]["outputs"]["c"] = 5
    for changes in ({}, {"seed": 1}, {"contract": wider}, {"mode": "inference"}):
        workshop.result("prepare", workshop.case(mlp, workshop.artifact(mlp), oracle_cache=str(tmp_path), **changes))
    assert len(list(tmp_path.iterdir())) == 4


def test_one_gate_run_of_fresh_processes_gives_the_same_verdict(workshop: Workshop) -> None:
    mlp = program("mlp")
    artifact = workshop.artifact(mlp)
    alone = certify_case(workshop.case(mlp, artifact), python_path=[str(Path(__file__).parent)])
    assert comparable(alone) == comparable(workshop.verdict(workshop.case(mlp, artifact)))


def test_a_judge_that_cannot_read_its_case_says_so(workshop: Workshop) -> None:
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp), artifact_sha256="0" * 64)
    assert workshop.step("prepare", case) == 2


def test_other_bytes_and_another_candidates_artifact_are_refused(workshop: Workshop) -> None:
    artifact = workshop.artifact(program("mlp"))
    with pytest.raises(Refusal, match="was asked for"):
        load_artifact(artifact, "0" * 64, CANDIDATE)
    with pytest.raises(Refusal, match="belongs to candidate candidate"):
        load_artifact(artifact, sha256_file(artifact), "another")


@pytest.mark.parametrize("damage", ["rewritten", "replaced", "deleted"])
def test_an_expectation_that_changed_since_the_oracle_ran_is_not_believed(
    workshop: Workshop, tmp_path: Path, damage: str
) -> None:
    """What a subject could do to the shared file between the judge's two steps, to pass with wrong values."""
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp), "inference", oracle_cache=str(tmp_path / "oracle"))
    prepared = workshop.result("prepare", case)
    (kept,) = (tmp_path / "oracle").iterdir()
    assert prepared["oracle_sha256"] == IndexedFile(kept).sha256
    workshop.step("run", case, "gate_vandals:patch_torch_and_lie")
    if damage == "deleted":
        kept.unlink()
    elif damage == "replaced":
        kept.unlink()
        kept.write_bytes(b"no expectation")
    else:
        believed = expectation.load(kept, prepared["oracle_sha256"])
        seen = read_tensors(Path(case["folder"]) / MAIN.name / OUTPUTS)
        (example,) = believed["example"]
        lies = {key.split("|", 2)[2]: value for key, value in seen.items() if key.startswith("example|0|output:")}
        told = replace(example.eager, tensors={**example.eager.tensors, **lies})
        exact = {**example.exact, **{key: value.double() for key, value in lies.items() if value.is_floating_point()}}
        expectation.save(kept, {**believed, "example": (replace(example, eager=told, exact=exact),)})
    verdict = workshop.decided(case, prepared)
    assert failing(verdict) == {("forward", "output 0"), ("forward", "output 1")}
    assert IndexedFile(kept).sha256 == prepared["oracle_sha256"]


def test_kept_expectations_are_read_only(workshop: Workshop, tmp_path: Path) -> None:
    mlp = program("mlp")
    workshop.result("prepare", workshop.case(mlp, workshop.artifact(mlp), oracle_cache=str(tmp_path / "oracle")))
    (kept,) = (tmp_path / "oracle").iterdir()
    assert [place.stat().st_mode & 0o777 for place in (kept, kept.parent)] == [0o444, 0o555]


def test_a_kept_expectation_that_cannot_be_read_is_computed_again(workshop: Workshop, tmp_path: Path) -> None:
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp), oracle_cache=str(tmp_path / "oracle"))
    prepared = workshop.result("prepare", case)
    (kept,) = (tmp_path / "oracle").iterdir()
    kept.chmod(0o644)
    kept.write_bytes(b"half a file")
    again = workshop.result("prepare", case)
    assert (again["cached"], again["oracle_sha256"]) == (False, prepared["oracle_sha256"])
