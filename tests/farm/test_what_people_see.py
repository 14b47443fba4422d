"""Reports fit the screen, and the shares of the wall time add up."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

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
    print_sweep(Console(file=out, width=width), [ROW, ROW | {"pipeline": "inductor"}], {"compile": 1.0})
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[0].split()[:3] == ["program", "pipeline", "outcome"]
    assert "conformance_failure (forward)" in lines[1]


def test_rows_too_wide_for_the_screen_are_printed_a_value_a_line() -> None:
    out = io.StringIO()
    print_rows(Console(file=out, width=40), ["name", "text"], [{"name": "x", "text": "y" * 60}])
    assert f"text  {'y' * 60}" in out.getvalue()
    assert "(1 row)" in out.getvalue()
