"""A planted farm, and the whole chain from a store to a webhook where Debian's binaries are there."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "demo"))

from alert_stack import BINARIES, AlertStack
from planted_farm import PlantedFarm


@pytest.fixture
def farm(tmp_path: Path) -> PlantedFarm:
    return PlantedFarm(tmp_path / "store")


@pytest.fixture(scope="session")
def needs() -> Callable[..., None]:
    """Skips a test whose programs are not installed; .ci/run installs them, ``farm doctor`` says what is missing."""

    def check(*programs: str) -> None:
        if missing := [name for name in programs if shutil.which(name) is None]:
            pytest.skip(f'{", ".join(missing)} not installed: run "apt-get install {" ".join(BINARIES)}"')

    return check


@pytest.fixture
def started_stack(tmp_path: Path, needs: Callable[..., None]) -> Iterator[Callable[[Path], AlertStack]]:
    """Starts the chain over a store, once a test."""
    needs(*BINARIES)
    running: list[AlertStack] = []

    def start(store: Path) -> AlertStack:
        running.append(AlertStack(tmp_path / "stack", store).__enter__())
        return running[-1]

    yield start
    for stack in running:
        stack.__exit__(None, None, None)
