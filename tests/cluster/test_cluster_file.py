"""``ray_cluster.yaml``: valid to Ray offline, closed to strangers, and offering what the farm's pools ask for."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts import scripts

from tensorfarm.farm.app.pools import engine_config

FILE = Path(__file__).parents[2] / "ray_cluster.yaml"
RECORDER = '#!/bin/sh\nprintf "%s\\n" "$@" > "$RECORD"; env > "$RECORD.environment"\n'


@pytest.fixture
def file() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


def validate(file: dict[str, Any]) -> dict[str, Any]:
    prepared = prepare_config(copy.deepcopy(file))
    validate_config(prepared)
    return prepared


@pytest.fixture
def started(tmp_path: Path, file: dict[str, Any]) -> Callable[..., tuple[list[str], dict[str, str]]]:
    """Runs the last start command of a kind with recorders in place of ``ray`` and, on request, ``nvidia-smi``."""

    def run(kind: str, *, gpu: bool) -> tuple[list[str], dict[str, str]]:
        programs = tmp_path / ("gpu" if gpu else "cpu")
        programs.mkdir()
        (programs / "ray").write_text(RECORDER)
        (programs / "nvidia-smi").write_text(f"#!/bin/sh\nexit {0 if gpu else 9}\n")
        for program in programs.iterdir():
            program.chmod(0o755)
        record = programs / "record"
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "RECORD": str(record)}
        command = f"export RAY_HEAD_IP={file['provider']['head_ip']}; {file[f'{kind}_start_ray_commands'][-1]}"
        subprocess.run(["bash", "-c", command], env=environment, check=True)
        lines = Path(f"{record}.environment").read_text().splitlines()
        return record.read_text().splitlines(), dict(line.split("=", 1) for line in lines if "=" in line)

    return run


def option(arguments: list[str], name: str) -> str:
    (value,) = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"--{name}=")]
    return value


def test_the_file_is_valid_to_ray(file: dict[str, Any]) -> None:
    prepared = validate(file)
    assert prepared["max_workers"] == len(file["provider"]["worker_ips"])


def test_a_misspelt_key_is_refused(file: dict[str, Any]) -> None:
    file["worker_start_ray_comands"] = file.pop("worker_start_ray_commands")
    with pytest.raises(jsonschema.ValidationError, match="worker_start_ray_comands"):
        validate(file)


def test_a_value_of_the_wrong_type_is_refused(file: dict[str, Any]) -> None:
    file["idle_timeout_minutes"] = "two"
    with pytest.raises(jsonschema.ValidationError, match="'two' is not of type 'number'"):
        validate(file)


def test_a_file_without_its_machines_is_refused(file: dict[str, Any]) -> None:
    del file["provider"]["head_ip"]
    with pytest.raises(click.ClickException):
        validate(file)


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_ray_knows_every_option_of_a_start_command(started: Callable[..., Any], kind: str) -> None:
    arguments, _ = started(kind, gpu=False)
    command, *options = arguments
    assert command == "start"
    known = {name for parameter in scripts.start.params for name in parameter.opts}
    assert {argument.partition("=")[0] for argument in options} <= known


def test_every_resource_of_a_pool_is_offered_by_a_worker(started: Callable[..., Any]) -> None:
    arguments, _ = started("worker", gpu=False)
    offered = json.loads(option(arguments, "resources"))
    asked = {pool.resource for pool in engine_config("head:6379").pools}
    assert asked <= offered.keys()
    assert all(units >= 1 for units in offered.values())


def test_a_worker_with_a_gpu_offers_the_same_for_cuda(started: Callable[..., Any]) -> None:
    cpu, gpu = (started("worker", gpu=found)[0] for found in (False, True))
    names = json.loads(option(cpu, "resources")).keys()
    assert json.loads(option(gpu, "resources")).keys() == {f"{name}_cuda" for name in names}
    assert (option(cpu, "labels"), option(gpu, "labels")) == ("farm/role=cpu", "farm/role=gpu")


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_nodes_want_a_token_and_tell_nobody(started: Callable[..., Any], kind: str) -> None:
    _, environment = started(kind, gpu=False)
    assert environment["RAY_AUTH_MODE"] == "token"
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    assert kind == "head" or environment["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] == "1"


def test_the_token_goes_to_every_node(file: dict[str, Any]) -> None:
    assert file["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}


def test_the_head_runs_no_job_and_is_bound_to_its_private_address(
    started: Callable[..., Any], file: dict[str, Any]
) -> None:
    head, _ = started("head", gpu=False)
    assert option(head, "num-cpus") == "0"
    assert not any(argument.startswith("--resources") for argument in head)
    assert option(head, "node-ip-address") == file["provider"]["head_ip"]
    assert option(head, "dashboard-host") == "127.0.0.1"


def test_every_port_is_fixed_and_named_in_the_comment(started: Callable[..., Any]) -> None:
    comment = "".join(line for line in FILE.read_text().splitlines() if line.startswith("#"))
    ranges = [(int(low), int(high or low)) for low, high in re.findall(r"(\d{4,5})(?:–(\d{4,5}))?", comment)]
    ports: list[int] = []
    for kind in ("head", "worker"):
        arguments, _ = started(kind, gpu=kind == "head")
        ports += [int(part.partition("=")[2]) for part in arguments if re.match(r"--[a-z-]*port=", part)]
    assert len(ports) == len(set(ports)), "a worker can share the head's machine"
    assert all(any(low <= port <= high for low, high in ranges) for port in ports), ports


def test_workers_join_the_head_where_it_listens(started: Callable[..., Any], file: dict[str, Any]) -> None:
    (head, _), (worker, _) = (started(kind, gpu=kind == "head") for kind in ("head", "worker"))
    assert option(worker, "address") == f"{file['provider']['head_ip']}:{option(head, 'port')}"
