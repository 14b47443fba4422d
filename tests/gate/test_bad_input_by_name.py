"""Originals and subjects that no gate can do its work with, named: one clear finding or refusal each, never a pass."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gate_misfits
import pytest
from gate_workshop import Workshop

from tensorfarm.contract.exchange import BEGUN, REPORT
from tensorfarm.contract.regular_file import written_anew
from tensorfarm.gate import Refusal, certify
from tensorfarm.gate.child import refusal_in
from tensorfarm.gate.library import contract_fields
from tensorfarm.gate.limits import Limits
from tensorfarm.gate.processes import judged, subject_death
from tensorfarm.gate.step import CASE, FUNCTIONS
from tensorfarm.gate.whole_run import certify_case

HERE = str(Path(__file__).parent)


def case(workshop: Workshop, original: str, subject: str = "good", level: str = "quick") -> dict[str, Any]:
    workshop.count += 1
    folder = workshop.folder / f"{workshop.count}.run"
    folder.mkdir()
    contract = contract_fields("float32")
    contract["inputs"]["ranges"]["floating"] = [-9, 9]
    return {
        "subject": {"kind": "callable", "source": f"gate_misfits:{subject}"},
        "source": f"gate_misfits:{original}",
        "mode": "inference",
        "level": level,
        "contract": contract,
        "folder": str(folder),
    }


def said(verdict: dict[str, Any]) -> str:
    """All that a person is told, which no traceback is part of."""
    text = "\n".join([verdict["message"], *(row["message"] for row in verdict["findings"])])
    assert "Traceback" not in text
    return text


def test_an_honest_subject_of_an_honest_original_is_admitted(workshop: Workshop) -> None:
    assert workshop.verdict(case(workshop, "tanh"))["outcome"] == "admitted"


REFUSED = {
    "factory_raises": "raised RuntimeError: no weights here; call it on its own and mend it",
    "factory_exits": "raised SystemExit: enough; call it on its own and mend it",
    "not_there": "gate_misfits has no function 'not_there'; it offers",
}


@pytest.mark.parametrize("original", REFUSED)
def test_an_original_that_cannot_be_made_is_refused_in_one_line(workshop: Workshop, original: str) -> None:
    asked = case(workshop, original)
    assert workshop.step("prepare", asked) == 2
    refusal = refusal_in(Path(asked["folder"]) / "prepare.json")
    assert REFUSED[original] in str(refusal)
    assert "\n" not in str(refusal)


NO_WITNESS = {
    "raises": "the original raises on the example inputs: ValueError: no such head",
    "exits": "the original raises on the example inputs: SystemExit: 0",
    "draws_from_numpy": "another output 0 when it is called again",
    "draws_from_random": "another output 0 when it is called again",
    "draws_from_a_generator": "another output 0 when it is called again",
    "returns_words": "the original returns no tensor (done)",
    "outside_the_ranges": "declares",
}


@pytest.mark.parametrize("original", NO_WITNESS)
def test_an_original_that_is_no_witness_is_a_finding_and_never_a_pass(workshop: Workshop, original: str) -> None:
    """Its own code is the subject too: nothing but the original is at fault."""
    asked = case(workshop, original)
    asked["subject"] = {"kind": "callable", "source": f"gate_misfits:{original}", "factory": True}
    verdict = workshop.verdict(asked)
    assert verdict["outcome"] == "undecided", verdict
    assert NO_WITNESS[original] in said(verdict)
    assert [row["check_name"] for row in verdict["findings"]].count("witness") == 1


SUBJECTS = {
    "not_there": "subject: factory 'gate_misfits:not_there': gate_misfits has no function 'not_there'; it offers",
    "sigkill": "it died in call 1 of 1 of trial example: SIGKILL",
    "segfault": "it died in call 1 of 1 of trial example: SIGSEGV",
    "segfaults_on_integers": "it died in call 1 of 1 of trial exact_integers: SIGSEGV",
    "aborts": "it died in call 1 of 1 of trial example: SIGABRT",
    "leaves_with_0": "it left no report",
    "exits_with_0": "the original answers, it raises SystemExit: 0",
    "exits_with_words": "the original answers, it raises SystemExit: enough",
    "allocates_what_nobody_has": "can't allocate memory",
    "runs_out_of_memory": "MemoryError",
    "raises_many_lines": "it raises ValueError: a kernel says: no such shape",
    "returns_words_too": "the subject gave none",
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_that_gives_no_answer_is_a_finding_that_says_why(workshop: Workshop, subject: str) -> None:
    verdict = workshop.verdict(case(workshop, "tanh", subject))
    assert verdict["outcome"] == "conformance_failure"
    assert SUBJECTS[subject] in said(verdict)
    assert (subject == "segfaults_on_integers") == (verdict["findings"][0]["input_suite"] == "exact_integers")


def test_a_subject_may_close_its_streams(workshop: Workshop) -> None:
    assert workshop.verdict(case(workshop, "tanh", "closes_its_streams"))["outcome"] == "admitted"


# In interpreters of their own, as certify and farm verify start them.


def judged_apart(workshop: Workshop, subject: str, seconds: float) -> dict[str, Any]:
    """The judge's steps in forks, which cost nothing; the subject's in a fresh interpreter."""
    asked = case(workshop, "tanh", subject)
    prepared = workshop.result("prepare", asked)
    death = subject_death(Path(asked["folder"]), [HERE], Limits(seconds))
    return workshop.decided(asked, prepared, {} if death is None else {FUNCTIONS["run"]: death})


@pytest.mark.slow
def test_a_subject_that_hangs_is_ended_and_its_call_is_named(workshop: Workshop) -> None:
    verdict = judged_apart(workshop, "hangs", 30.0)
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "timeout")
    assert "it died in call 1 of 1 of trial example: no answer within 30 seconds" in said(verdict)


@pytest.mark.slow
def test_a_subject_that_leaves_with_0_is_said_to_have_given_no_answer(workshop: Workshop) -> None:
    verdict = judged_apart(workshop, "leaves_with_0", 120.0)
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "crash")
    assert "it died in call 1 of 1 of trial example: exit code 0, before it had answered" in said(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["prints_megabytes", "leaves_a_thread", "leaves_a_process"])
def test_bad_manners_of_an_honest_subject_keep_nobody_waiting(workshop: Workshop, subject: str) -> None:
    assert judged_apart(workshop, subject, 120.0)["outcome"] == "admitted"


MISSPELT: dict[str, dict[str, Any]] = {
    "has no field 'src' (known here: source, backend,": {"kind": "compiled", "src": "gate_misfits:tanh"},
    'did you mean "backend"?': {"kind": "compiled", "source": "gate_misfits:tanh", "backnd": "eager"},
    "of the kind onnx needs the field 'path'": {"kind": "onnx"},
    'did you mean "compiled"?': {"kind": "compield", "source": "gate_misfits:tanh"},
    "the subject has no kind": {"source": "gate_misfits:tanh"},
    "source of a subject of the kind callable is Applied (text)": {
        "kind": "callable",
        "source": gate_misfits.Applied(gate_misfits.good),
    },
    "options of the subject is dict, which cannot be told": {
        "kind": "compiled",
        "source": "gate_misfits:tanh",
        "options": {"post_grad_custom_pre_pass": gate_misfits.good},
    },
}


@pytest.mark.parametrize("words", MISSPELT)
def test_a_misspelt_subject_is_refused_before_anything_starts(words: str) -> None:
    with pytest.raises(Refusal) as refused:
        certify("gate_misfits:tanh", MISSPELT[words], python_path=[HERE])
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


WRECKS: dict[str, Callable[[Path], object]] = {
    "removes its folder": shutil.rmtree,
    "leaves a pipe for a report": lambda folder: (folder / "main").mkdir() or os.mkfifo(folder / "main" / REPORT),
    "leaves a pipe for its trace": lambda folder: (folder / "main").mkdir() or os.mkfifo(folder / "main" / BEGUN),
    "leaves a link to itself": lambda folder: (folder / "main").symlink_to("main"),
    "leaves a file for its folder": lambda folder: (folder / "main").write_text("no folder"),
}


@pytest.mark.parametrize("wreck", WRECKS)
def test_whatever_a_subject_makes_of_its_folder_is_a_finding(workshop: Workshop, wreck: str) -> None:
    asked = case(workshop, "tanh")
    prepared = workshop.result("prepare", asked)
    WRECKS[wreck](Path(asked["folder"]))
    deaths = {FUNCTIONS["run"]: {"kind": "exit", "message": "exit code 1"}}
    written_anew(Path(asked["folder"]) / CASE, json.dumps(asked))
    for told in ({}, deaths):
        assert workshop.decided(asked, prepared, told)["outcome"] == "conformance_failure"


def test_a_case_is_written_through_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    for name in ("link", "pipe", "folder", "gone/new"):
        written_anew(tmp_path / name, "case")
        assert (tmp_path / name).read_text() == "case"
    assert (tmp_path / "mine").read_text() == "mine"


def test_an_original_that_hangs_is_ended_and_named_with_its_limit(workshop: Workshop) -> None:
    with pytest.raises(Refusal) as refused:
        certify_case(case(workshop, "never_ends"), python_path=[HERE], limits=Limits(3.0))
    assert str(refused.value) == (
        "the original gate_misfits:never_ends and its oracle gave no answer within 3 seconds (in the judge's step "
        "prepare); call it on its own with its inputs; where it is slow and does end, give more seconds, or a lower "
        "level"
    )


@pytest.mark.slow
def test_an_original_that_takes_all_memory_is_told_so_and_takes_it_from_nobody(workshop: Workshop) -> None:
    limits = Limits(120.0, 3 << 30)
    verdict = certify_case(case(workshop, "asks_for_much_memory"), python_path=[HERE], limits=limits)
    assert verdict["outcome"] == "undecided"
    assert "the original raises on the example inputs: RuntimeError: " in said(verdict)
    assert "can't allocate memory: you tried to allocate" in said(verdict)
    with pytest.raises(Refusal, match=r"without an answer: .* the original gate_misfits:keeps_all_memory runs"):
        certify_case(case(workshop, "keeps_all_memory"), python_path=[HERE], limits=limits)


@pytest.mark.slow
@pytest.mark.parametrize("original", ["is_killed", "leaves_without_a_word"])
def test_an_original_that_ends_the_judge_is_refused_and_nothing_it_laid_is_believed(
    workshop: Workshop, original: str
) -> None:
    asked = case(workshop, original)
    folder = Path(asked["folder"])
    (folder / "prepare.json").write_text(json.dumps({"verdict": {"outcome": "admitted"}}))
    with pytest.raises(Refusal, match=r"step prepare ended without an answer: .*; call the original on its own"):
        certify_case(asked, python_path=[HERE])
    (folder / CASE).unlink()
    with pytest.raises(Refusal, match="the judge's step decide ended without an answer: exit code 1"):
        judged("decide", folder)


def test_what_is_tested_here_is_what_there_is() -> None:
    """No misfit is forgotten."""
    tested = {*NO_WITNESS, *REFUSED, *SUBJECTS}
    own = {name for name, value in vars(gate_misfits).items() if getattr(value, "__module__", "") == "gate_misfits"}
    limited = {"never_ends", "asks_for_much_memory", "keeps_all_memory"}
    manners = {"prints_megabytes", "leaves_a_thread", "leaves_a_process", "closes_its_streams", "hangs"}
    assert own - tested == {"Applied", "tanh", "good", "is_killed", "leaves_without_a_word", *limited, *manners}
