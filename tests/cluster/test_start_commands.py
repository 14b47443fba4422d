"""The start commands of ``ray_cluster.yaml``, run for real on loopback: a sweep with the token, a refusal without."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

FILE = Path(__file__).parents[2] / "ray_cluster.yaml"
# Not 127.0.0.1, which Ray takes for "this machine" and replaces; a worker on this machine has that one.
HEAD = "127.0.0.2"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class TokenCluster:
    address: str
    token: str
    home: Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(file: dict[str, Any], kind: str, port: int, environment: dict[str, str]) -> None:
    """The file's command, rewritten only in the head's address and its last argument, which is "ray up"'s own file."""
    command = file[f"{kind}_start_ray_commands"][-1].replace(file["provider"]["head_ip"], HEAD)
    command = command.replace("6379", str(port)).removesuffix("--autoscaling-config=~/ray_bootstrap_config.yaml")
    done = subprocess.run(["bash", "-c", f"export RAY_HEAD_IP={HEAD}; {command}"], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def cluster() -> Iterator[TokenCluster]:
    file = yaml.safe_load(FILE.read_text())
    # A socket's path has at most 107 characters: pytest's own folders are too deep.
    home, port, token = Path(tempfile.mkdtemp(prefix="farm-", dir="/tmp")), free_port(), secrets.token_hex(32)
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text(token)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(home), "PATH": path, "RAY_TMPDIR": str(home)}
    try:
        start(file, "head", port, environment)
        start(file, "worker", port, environment)
        yield TokenCluster(f"{HEAD}:{port}", token, home)
    finally:
        for process in psutil.process_iter():
            if belongs_to(process, home):
                process.kill()
        shutil.rmtree(home, ignore_errors=True)


def belongs_to(process: psutil.Process, home: Path) -> bool:
    try:
        return process.environ().get("RAY_TMPDIR") == str(home)
    except psutil.Error:
        return False


def test_with_the_token_a_sweep_finishes(cluster: TokenCluster, new_place: Callable[[str], Any]) -> None:
    place = new_place("sweep")
    (place.folder / "lingered").touch()
    known = {"HOME": str(cluster.home), "RAY_AUTH_MODE": "token"}
    done = place("sweep", "small.yaml", *place.store, "--address", cluster.address, **known)
    assert done.returncode == 13, done.stderr
    outcomes = [row[0] for row in place.table().values()]
    assert sorted(outcomes) == ["admitted", "admitted", "admitted", "conformance_failure"]


@pytest.mark.parametrize("have", ["nothing", "the mode and no token", "another token"])
def test_without_the_token_a_driver_is_refused_in_one_line(
    cluster: TokenCluster, new_place: Callable[[str], Any], have: str
) -> None:
    place = new_place("stranger")
    environment = {"HOME": str(place.folder), "RAY_AUTH_MODE": "disabled" if have == "nothing" else "token"}
    if have == "another token":
        environment["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    done = place("sweep", "small.yaml", *place.store, "--address", cluster.address, **environment)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"the Ray cluster at {cluster.address} does not let this driver in without its token" in done.stderr
    assert "~/.ray/auth_token" in done.stderr
