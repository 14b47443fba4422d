"""The benchmark's own arithmetic and rivals: a rate has its interval, a rival sees what it should, a child has an end.

The verdicts behind them are the gate's and are tested where the gate is.
"""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
pytest.importorskip("rich")

import gate_cases  # noqa: E402
import gate_rivals  # noqa: E402
import gate_score  # noqa: E402
from gate_children import apart  # noqa: E402
from gate_verdicts import Job, Row, changed_by_seed, spread  # noqa: E402

from tensorfarm.contract.refusal import Refusal  # noqa: E402

TABLES = ("ONNX Runtime's rule", "JAX's rule", "torch.testing.assert_close")


def row(kind: str, outcome: str, killed: bool = False, seed: int = 0, failed: tuple[str, ...] = ()) -> Row:
    return Row(kind, "p:q", 0, seed, "site", ("forward", "ladder"), "float32", outcome, failed, "", "", killed, 0.1)


def test_no_miss_in_three_hundred_bounds_the_rate_near_one_percent() -> None:
    low, high = gate_score.wilson(0, 300)
    assert low == 0.0
    assert 0.012 < high < 0.013
    assert gate_score.wilson(0, 0) == (0.0, 1.0)


def test_a_survivor_lowers_every_family_that_is_listed_for_it() -> None:
    rows = [row("M01", "conformance_failure", True, failed=("forward",)), row("M01", "admitted")]
    by_family = {item.name: item for item in gate_score.by_family(rows)}
    assert {name: (item.killed, item.alone) for name, item in by_family.items()} == {
        "forward": (1, 1),
        "ladder": (1, 0),
    }
    missed = {goal.name.partition(",")[0] for goal in gate_score.mutation_goals(rows, 1, 1) if not goal.met}
    assert missed == {"mutants killed by a listed family", "lowest family: forward"}


def test_an_alarm_on_an_honest_variant_misses_the_goal_and_a_doubt_does_not() -> None:
    doubtful = [row("H10", "undecided")]
    assert all(goal.met for goal in gate_score.honest_goals(doubtful, 1))
    assert not all(goal.met for goal in gate_score.honest_goals([*doubtful, row("H11", "conformance_failure")], 1))


def test_a_verdict_that_changes_with_the_seed_is_told() -> None:
    rows = [row("M01", "admitted", seed=0), row("M01", "undecided", seed=1), row("M02", "admitted")]
    assert [item["kind"] for item in changed_by_seed(rows)] == ["M01"]


def test_rules_of_rivals_see_a_gross_fault_and_let_the_same_values_pass() -> None:
    expected = {
        "0|output:0": torch.linspace(1, 2, 7),
        "0|output:1": torch.tensor([1, 2]),
        "0|gradient:x": torch.ones(0),
    }
    wrong = {**expected, "0|output:1": torch.tensor([1, 3])}
    nan = {**expected, "0|output:0": torch.full((7,), torch.nan)}
    for name in TABLES:
        differs = gate_rivals.RIVALS[name]
        assert not differs(expected, expected), name
        assert differs(wrong, expected), name
        assert differs(nan, expected), name
        assert not differs(nan, nan), name


def test_a_shape_that_could_be_broadcast_is_a_difference() -> None:
    expected = {"0|output:0": torch.ones(3)}
    assert all(gate_rivals.RIVALS[name]({"0|output:0": torch.ones(1)}, expected) for name in TABLES)


def test_a_child_that_is_killed_says_by_what_and_one_that_is_not_gives_its_answer() -> None:
    assert apart(sorted, (3, 1)).answer == [1, 3]
    assert apart(lambda: os.kill(os.getpid(), signal.SIGKILL)).death == "signal SIGKILL"
    assert apart(os._exit, 3).death == "exit code 3"
    assert apart(signal.pause, seconds=1).death == "signal SIGALRM"


def test_a_sample_of_a_kind_is_spread_over_its_programs() -> None:
    jobs = [Job(Path(f"{number}.program"), kind, 0) for kind in ("M01", "M02") for number in range(12)]
    taken = spread(jobs, 4)
    assert [job.kind for job in taken] == ["M01"] * 4 + ["M02"] * 4
    assert len({(job.kind, job.path) for job in taken}) == 8


def test_a_readme_speaks_of_the_torch_it_names_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    cells = (
        "| 01 | issue | class | all | **REPRODUCES** | MUTATION:VALUE, VALUE, ROUND |\n"
        "| 02 | i | c | a | **REPRODUCES (borderline)** | VALUE |\n"
    )
    told = {
        "case01": gate_cases.Told(reproduces=True, aspects=("MUTATION:VALUE", "VALUE")),
        "case02": gate_cases.Told(reproduces=False, aspects=("VALUE",)),
    }
    for version, expected in ((torch.__version__, told), ("1.0.0", {})):
        readme.write_text(f"| case | issue | class | affected | torch {version} | aspects seen |\n|---|\n{cells}")
        assert gate_cases.expectations(readme) == expected


def test_a_case_counts_as_found_where_each_aspect_is_a_failed_familys_business() -> None:
    told = gate_cases.Told(reproduces=True, aspects=("MUTATION:VALUE", "VALUE"))

    def flagged_by(*families: str) -> gate_cases.Judged:
        return gate_cases.Judged("case01", "conformance_failure", families, "", told)

    assert flagged_by("mutation", "integers").right
    lucky = flagged_by("errors", "forward")
    assert lucky.unfound == ("MUTATION:VALUE",)
    assert not lucky.right
    assert "MUTATION:VALUE" in lucky.line()
    found = [(goal.measured, goal.met) for goal in gate_cases.goals([flagged_by("mutation", "forward"), lucky])]
    assert found == [(2, True), (1, False), (0, True)]


def test_a_file_that_cannot_be_imported_has_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('no case')")
    judged = gate_cases.judged(broken, {}, 0, None)
    assert judged.outcome == "refused"
    assert "no case" in judged.line()


WRONG = {
    "": "the file has no model and no inputs",
    "def (": "SyntaxError",
    "import os; os._exit(0)": "the file cannot be imported: exit code 0",
    "import sys; sys.exit(3)": "the file cannot be imported: exit code 3",
    "def CHECK(_):\n    raise ValueError('no kernel')": "exit code 1; it last printed: ValueError",
    "def CHECK(_):\n    return [[1]]": "findings of fewer than 3 parts",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_ends_its_process_or_is_no_case_has_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.py").write_text(text)
    judged = gate_cases.judged(tmp_path / "wrong.py", {}, 0, None)
    assert not judged.flagged
    assert judged.outcome != "admitted"
    assert WRONG[text] in judged.worst
    assert "\n" not in judged.line()


@pytest.mark.slow
def test_what_a_case_prints_is_not_its_answer(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("import atexit\natexit.register(print, 'bye')\ndef CHECK(_):\n    return []\n")
    assert gate_cases.judged(tmp_path / "loud.py", {}, 0, None).outcome == "admitted"
    (tmp_path / "endless.py").write_text("while True:\n    print('x' * 4096)\n")
    _, death = gate_cases._answer(tmp_path / "endless.py", "looks", 1.0)  # pyright: ignore[reportPrivateUsage]
    assert "no answer within 1 seconds" in death


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Refusal, match="holds no case"):
            list(gate_cases.judged_cases(folder, {}))
