"""The examples of certifying do what their first lines promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Each starts an interpreter, and some of them a judge.
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(*arguments: str) -> str:
    isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    code = f"import runpy, sys; sys.path[:] = {sys.path!r}; sys.argv = {list(arguments)!r}; "
    code += (
        "runpy.run_module('pytest', run_name='__main__')"
        if arguments[0] == "pytest"
        else ("runpy.run_path(sys.argv[0], run_name='__main__')")
    )
    command = [sys.executable, *isolation, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=EXAMPLES).stdout


def test_a_fast_approximation_passes_assert_close_and_not_the_gate() -> None:
    close, honest, fast = ran(str(EXAMPLES / "certify_torch_compile.py")).split("\n\n", 2)
    assert close == "assert_close: agrees"
    assert honest.startswith("admitted\n")
    assert fast.startswith("conformance_failure (forward): ")


def test_a_function_that_keeps_no_state_is_told_from_the_module_that_does() -> None:
    honest, forgetful = ran(str(EXAMPLES / "certify_by_name.py")).split("\n\n", 1)
    assert honest.startswith("admitted\n")
    assert "judged in processes of its own" in honest
    assert forgetful.startswith("conformance_failure (mutation): mutation: buffer mean")


def test_the_example_of_the_fixture_passes() -> None:
    assert "2 passed" in ran("pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "certify_pytest"))
