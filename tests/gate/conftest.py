"""The gate's workshop: programs, artifacts built from them by hand, and a warm parent that forks a child per step.

A judge seals its process against compilers, so no step of the gate may run in the process of the tests.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gate_workshop import Workshop


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with Workshop(tmp_path_factory.mktemp("gate")) as made:
        yield made
