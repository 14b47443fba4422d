"""A store to report on, and the command line as a person has it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report_facts import a_sweep, write

from tensorfarm.farm.cli import run
from tensorfarm.farm.store.layout import StoreLayout

Farm = Callable[..., tuple[int, str, str]]


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    return StoreLayout(tmp_path / "store").create()


@pytest.fixture
def swept(layout: StoreLayout) -> StoreLayout:
    """A store with one sweep of three cells in it."""
    write(layout, *a_sweep())
    return layout


@pytest.fixture
def farm(layout: StoreLayout, capsys: pytest.CaptureFixture[str]) -> Farm:
    """Runs ``farm WORDS --store …``: exit code, standard output, standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--store", str(layout.root)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def reported(farm: Farm) -> Callable[..., dict[str, Any]]:
    """A report's JSON."""

    def call(*words: str) -> dict[str, Any]:
        code, out, err = farm("report", *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call
