"""The Ray cluster under an engine: one started here, bound to loopback, or one that already runs somewhere.

What is missing is said before anything is submitted: Ray itself waits in silence for a resource that no node offers.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import ray
from ray import exceptions
from ray._private import ray_constants
from ray._private import worker as ray_worker
from ray.util import get_node_ip_address

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.engine.classify import first_line
from tensorfarm.farm.engine.config import PoolSpec

_PROBE_SECONDS = 3.0
# A client's preface and an empty settings frame; a server answers with settings of its own.
_HTTP2_SETTINGS = 4
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _HTTP2_SETTINGS, 0, 0, 0, 0, 0])
_LOOPBACK = "127.0.0.1"
_LOOPBACK_NAMES = (_LOOPBACK, "localhost", "::1")
_JOIN_TRIES = 3
_OBJECT_STORE_BYTES = 128 << 20
# Jobs travel as files: the object store stays small. A dead node is noticed in about two seconds.
_HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
_ENVIRONMENT = {
    # Ray listens on every interface unless it believes that this machine cannot be part of a cluster.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # An actor that asked for no GPU sees none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_log = logging.getLogger("tensorfarm.ray")


def start_local(pools: Sequence[PoolSpec], cores: int | None) -> None:
    """Start Ray on this machine alone, with the resources that ``pools`` ask for."""
    resources: dict[str, float] = {}
    for pool in pools:
        resources[pool.resource] = resources.get(pool.resource, 0.0) + pool.actors
    _keep_standard_output()
    with _only_this_machine(), _signal_handlers_kept():
        ray.init(
            address="local",
            num_cpus=cores,
            resources=resources,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address=_LOOPBACK,
            _system_config=_HEALTH,
        )


def _keep_standard_output() -> None:
    """Ray prints what a raylet has to say to standard output, whatever it is told: there our own answers go."""

    def log(data: Mapping[str, Any], ignore_prefix: bool) -> None:
        _log.info("%s: %s", data["pid"], " ".join(data["lines"]))

    ray_worker.print_to_stdstream = log


@contextmanager
def _signal_handlers_kept() -> Generator[None]:
    """Ray puts handlers of its own, the one for SIGTERM aborts the process; the caller's come back at once."""
    ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in ours.items():
                signal.signal(number, handler)


@contextmanager
def _only_this_machine() -> Generator[None]:
    """Ray reads these when it is imported and when it starts its servers: they must hold for both."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    cluster_before = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(_ENVIRONMENT)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = cluster_before
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def join(address: str) -> None:
    """Connect to a running cluster. Raises Refusal where nothing answers within three seconds, or lacks the token."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise Refusal(f"{address!r} is no Ray address", limit="HOST:PORT", next_step="give the head node's address")
    try:
        _probe(host, int(port))
    except OSError as problem:
        raise Refusal(
            f"no Ray cluster answers at {address}: {problem}",
            limit=f"{_PROBE_SECONDS:g} s",
            next_step='start one with "ray start --head" there, or leave the address out to run on this machine',
        ) from None
    _keep_standard_output()
    place = _only_this_machine() if _only_on_loopback(host, int(port)) else nullcontext()
    with place, _signal_handlers_kept(), _few_retries(), _native_log() as native_log:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, exceptions.RayError) as problem:
            raise _refused(address, problem, native_log()) from None


def _only_on_loopback(host: str, port: int) -> bool:
    """Ray replaces a loopback address by this machine's outward one, where a cluster on loopback does not listen."""
    if host not in _LOOPBACK_NAMES:
        return False
    try:
        _probe(get_node_ip_address(), port)
    except OSError:
        return True
    return False


def _refused(address: str, problem: Exception, native_log: str) -> Refusal:
    if isinstance(problem, exceptions.AuthenticationError) or "Unauthenticated" in native_log:
        return Refusal(
            f"the Ray cluster at {address} does not let this driver in without its token",
            limit="RAY_AUTH_MODE=token and the head node's token in ~/.ray/auth_token",
            next_step="copy that file from the head node (docs/cluster.md)",
        )
    return Refusal(
        f"what answers at {address} is no Ray cluster that this driver can join: {first_line(problem)}",
        limit=f"Ray {ray.__version__}, Python of the same minor version, a node of the cluster on this machine",
        next_step='ask "ray status" on the head node',
    )


@contextmanager
def _few_retries() -> Generator[None]:
    """A server has answered: what it refuses now it refuses the twentieth time too."""
    before = ray_constants.NUM_REDIS_GET_RETRIES
    ray_constants.NUM_REDIS_GET_RETRIES = _JOIN_TRIES
    try:
        yield
    finally:
        ray_constants.NUM_REDIS_GET_RETRIES = before


@contextmanager
def _native_log() -> Generator[Callable[[], str]]:
    """What Ray's C++ half writes to standard error: why it was refused is said nowhere else, and many times over."""
    with tempfile.TemporaryFile() as file:
        ours = os.dup(2)
        os.dup2(file.fileno(), 2)

        def written() -> str:
            return os.pread(file.fileno(), 1 << 16, 0).decode(errors="replace")

        try:
            yield written
        finally:
            os.dup2(ours, 2)
            os.close(ours)
            _log.info("%s", written())


def _probe(host: str, port: int) -> None:
    """Raise OSError unless a gRPC server greets within the limit: Ray itself tries a wrong port for two minutes."""
    with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        connection.sendall(_HTTP2_GREETING)
        greeting = connection.recv(9)
        if len(greeting) < 9 or greeting[3] != _HTTP2_SETTINGS:
            raise ConnectionError("what listens there is something else")


def alive_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def node_cores(node_id: str) -> int:
    """Cores that Ray counts on a node; one where it counts none."""
    for node in ray.nodes():
        if node["NodeID"] == node_id:
            return max(1, int(node["Resources"].get("CPU", 1)))
    return 1


def offered(resource: str) -> int:
    """Units of ``resource`` over all nodes that are alive."""
    return int(sum(node["Resources"].get(resource, 0) for node in alive_nodes()))


def require(pools: Sequence[PoolSpec]) -> None:
    """Raise Refusal unless some node offers each pool's resource."""
    missing = sorted({pool.resource for pool in pools if offered(pool.resource) < 1})
    if missing:
        flag = ", ".join(f'"{name}": 1' for name in missing)
        raise Refusal(
            f"no node of the cluster offers {' and '.join(missing)}",
            limit="one unit a supervisor",
            next_step=f"add to a node's start: ray start --resources='{{{flag}}}'",
        )
