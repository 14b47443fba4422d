"""Originals and subjects that no gate can do its work with, named: one clear finding or refusal each, never a pass."""

import json
from pathlib import Path
from typing import Any

import gate_misfits
import pytest
from gate_workshop import Workshop

from tensorfarm.gate import Refusal
from tensorfarm.gate.child import refusal_in
from tensorfarm.gate.library import contract_fields
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
    death = subject_death(Path(asked["folder"]), [HERE], seconds)
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
    manners = {"prints_megabytes", "leaves_a_thread", "leaves_a_process", "closes_its_streams", "hangs"}
    assert own - tested == {"Applied", "tanh", "good", "is_killed", "leaves_without_a_word", *manners}
