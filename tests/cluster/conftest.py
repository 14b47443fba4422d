"""Real sweeps with the ``farm`` command: on this machine alone, and on nodes that only loopback connects."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# What a table says of a cell besides times and where its reproducer lies.
COLUMNS = ("outcome", "outcome_kind", "forward_over_limit", "gradient_over_limit")


@dataclass(frozen=True)
class Place:
    """A folder with a project and a store. Its path goes to every node: it is absolute."""

    folder: Path

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tensorfarm.farm", *arguments],
            cwd=self.folder,
            env={**os.environ, "TENSORFARM_BUILD_ROOT": str(self.folder / "build"), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, seconds: float = 280.0, **environment: str) -> subprocess.CompletedProcess[str]:
        return finished(self.start(*arguments, **environment), seconds)

    @property
    def store(self) -> tuple[str, str]:
        return "--store", str(self.folder / "store")

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self._json("query", sql)

    def table(self) -> dict[str, tuple[Any, ...]]:
        """The final table, less what only measures time."""
        return {row["subject"]: tuple(row[name] for name in COLUMNS) for row in self._json("report", "sweep")["cells"]}

    def _json(self, *arguments: str) -> Any:
        done = self(*arguments, *self.store, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def finished(process: subprocess.Popen[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Wait for it; one that takes too long is killed, and what it started goes by itself."""
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException:
        process.kill()
        process.communicate(timeout=30)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def new_place(tmp_path: Path) -> Callable[[str], Place]:
    """Makes places, each with the small models and passes of ``tests/farm`` and what lies here beside them."""

    def made(name: str) -> Place:
        for project in (HERE.parent / "farm" / "project", HERE / "project"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(project, tmp_path / name, dirs_exist_ok=True, ignore=ignored)
        return Place(tmp_path / name)

    return made
