"""Runs the real ``farm`` command in a copy of the user's project under ``project/``, with a store of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

PROJECT = Path(__file__).parent / "project"


@dataclass(frozen=True)
class Farm:
    """A project folder and the command line in it."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def start(self, *arguments: str, folder: str = ".") -> subprocess.Popen[str]:
        environment = os.environ | {"TENSORFARM_BUILD_ROOT": str(self.folder / "build")}
        command = [sys.executable, "-m", "tensorfarm.farm", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.folder / folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, folder=folder)
        try:
            out, err = process.communicate(timeout=280)
        except BaseException:
            end(process)
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def sweep(self, config: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self("sweep", config, "--store", "store", *options)

    def report(self) -> list[dict[str, Any]]:
        done = self("report", "sweep", "--store", "store", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["cells"]

    def query(self, sql: str) -> list[dict[str, Any]]:
        done = self("query", sql, "--store", "store", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


def end(process: subprocess.Popen[str]) -> None:
    """SIGKILL a driver, and it alone: what it started must go by itself."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.fixture(scope="module")
def new_farm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Farm]:
    """Makes farms, each a fresh copy of the project."""

    def made() -> Farm:
        folder = tmp_path_factory.mktemp("farm")
        shutil.copytree(PROJECT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        return Farm(folder)

    return made


@pytest.fixture
def farm(new_farm: Callable[[], Farm]) -> Farm:
    return new_farm()
