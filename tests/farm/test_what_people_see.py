"""Reports fit the screen, and the shares of the wall time add up."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tensorfarm.contract import events as e
from tensorfarm.farm.observe.progress import LiveProgress
from tensorfarm.farm.observe.rows import print_rows
from tensorfarm.farm.observe.sweep_table import print_sweep
from tensorfarm.farm.observe.wall_time import REST, Span, shares

ROW: dict[str, Any] = {
    "program": "whisper_encoder",
    "pipeline": "fx:drop-noop-casts,cse,fold-constants{limit=4096},dce",
    "outcome": "conformance_failure",
    "outcome_kind": "forward",
    "cached": False,
    "forward_over_limit": 5.4e5,
    "gradient_over_limit": None,
    "compile_seconds": 12.3,
    "gate_seconds": 1.0,
    "eager_p50_seconds": 0.002,
    "candidate_p50_seconds": 0.001,
    "speedup": 2.0,
    "artifact_sha256": "a" * 64,
    "message": None,
    "reproducer": None,
}

seconds = st.floats(0, 100, allow_nan=False)


@given(st.lists(st.tuples(st.sampled_from(["compile", "gate"]), seconds, seconds), max_size=8), seconds, seconds)
def test_the_shares_of_stages_and_rest_add_up_to_the_wall_time(
    jobs: list[tuple[str, float, float]], one: float, other: float
) -> None:
    whole = Span("sweep", min(one, other), max(one, other))
    spans = [Span(stage, min(a, b), max(a, b)) for stage, a, b in jobs]
    assert sum(shares(spans, whole).values()) == pytest.approx(whole.until - whole.since, abs=1e-9)


def test_two_jobs_at_once_share_the_moment_and_a_gap_is_rest() -> None:
    jobs = [Span("compile", 0, 4), Span("gate", 2, 4)]
    assert shares(jobs, Span("sweep", 0, 5)) == {"compile": 3.0, "gate": 1.0, REST: 1.0}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_narrow_screen_keeps_program_pipeline_and_outcome(width: int) -> None:
    out = io.StringIO()
    rows = [ROW, ROW | {"pipeline": "inductor"}]
    print_sweep(Console(file=out, width=width), rows, {"compile": 1.0}, Path("store"))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[0].split()[:3] == ["program", "pipeline", "outcome"]
    assert "conformance_failure (forward)" in lines[1]


def shown(*rows: dict[str, Any]) -> list[str]:
    """Lines of a sweep's table on a wide screen."""
    out = io.StringIO()
    print_sweep(Console(file=out, width=300), rows, {"compile": 1.0}, Path("my store"))
    return out.getvalue().splitlines()


def test_below_the_table_a_refused_cell_says_why_what_did_it_and_how_to_see_it() -> None:
    told = {"message": "output 0 is [off]; bisected: pass cse, site 3", "reproducer": "reproducers/b.py"}
    lines = shown(ROW | {"pipeline": "fx:[cse]"} | told, ROW | {"program": "[red]", "outcome": "admitted"})
    at = lines.index("whisper_encoder/fx:[cse]: output 0 is [off]; bisected: pass cse, site 3")
    assert lines[at + 1] == "python 'my store/reproducers/b.py' fails; python 'my store/reproducers/b.py' --off passes"
    assert any(line.startswith("[red]") for line in lines)
    assert not [line for line in lines if line.startswith("[red]/")]


def test_of_many_refused_cells_the_first_say_why_and_the_rest_are_counted() -> None:
    lines = shown(*(ROW | {"program": f"p{number}", "message": "wrong"} for number in range(11)))
    assert sum(line.endswith(": wrong") for line in lines) == 8
    assert "and 3 more that were not admitted" in lines


def probe(cell: str) -> e.ProbeDecided:
    return e.ProbeDecided("s", cell, "b", "c", 3, 2, "fx", "first 5", "bad", "", 1.0)


def test_live_lines_keep_brackets_and_name_a_probes_cell_where_several_are_bisected() -> None:
    out = io.StringIO()
    first, second = "[red]/fx:dce", "net/fx:" + "cse," * 20 + "mine:Last"
    with LiveProgress(Console(file=out, width=300)) as progress:
        progress.began("s", 2, 0)
        for cell in (first, second):
            progress.saw(e.BisectionStarted("s", cell, "b", "c", "fx", 9, 2, "{}"))
            progress.saw(probe(cell))
        progress.saw(e.BisectionFinished("s", second, "b", "c", "confirmed", "", "", 1, (), 1, 1, 1.0, "", False, ""))
        progress.saw(probe(first))
        progress.saw(
            e.CandidateEnded("s", first, "c", "[red]", "fx", "fx:dce", "conformance_failure", "", "[x] is off")
        )
    assert out.getvalue().splitlines()[1:] == [
        "[red]/fx:dce: refused; bisecting 9 sites, 2 probes a round",
        "  round 2: first 5 on is bad (1.0 s)",
        f"{second}: refused; bisecting 9 sites, 2 probes a round",
        f"  net/…{second[-40:]}, round 2: first 5 on is bad (1.0 s)",
        "  round 2: first 5 on is bad (1.0 s)",
        "1/2 [red]/fx:dce: conformance_failure [x] is off",
    ]


def test_rows_too_wide_for_the_screen_are_printed_a_value_a_line() -> None:
    out = io.StringIO()
    print_rows(Console(file=out, width=40), ["name", "text"], [{"name": "x", "text": "y" * 60}])
    assert f"text  {'y' * 60}" in out.getvalue()
    assert "(1 row)" in out.getvalue()
