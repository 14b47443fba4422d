"""The Ray actor that owns warm parents: a few lines around ``Crew``. Candidate code never runs in its process.

It is killed, not closed: its warm parents see their sockets end and take their children with them.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

import ray

from tensorfarm.farm.engine.config import RoleSpec
from tensorfarm.farm.engine.crew import Crew
from tensorfarm.farm.engine.job import JobResult, decode_job, encode_result
from tensorfarm.farm.engine.toolchain import installed_facts

NodeAnswer = tuple[str, str, dict[str, str]]


class Supervisor:
    def __init__(self, roles: Mapping[str, RoleSpec], start_seconds: float) -> None:
        self._crew = Crew(roles, node_name(), start_seconds)

    def node(self) -> NodeAnswer:
        """Ray's id and the readable name of the node this actor runs on, and what is installed there."""
        return ray.get_runtime_context().get_node_id(), node_name(), installed_facts()

    def run(self, job: bytes) -> bytes:
        return encode_result(self._crew.run(decode_job(job)))


class NoopSupervisor:
    """Answers every job at once, with nothing done: what the engine itself costs."""

    def __init__(self, roles: Mapping[str, RoleSpec], start_seconds: float) -> None:
        self._node_name = node_name()

    def node(self) -> NodeAnswer:
        return ray.get_runtime_context().get_node_id(), self._node_name, installed_facts()

    def run(self, job: bytes) -> bytes:
        return encode_result(JobResult(decode_job(job).job_id, (), self._node_name))


def node_name() -> str:
    """Host and Ray's id of this node: unique, and readable in a report."""
    return f"{socket.gethostname()}/{ray.get_runtime_context().get_node_id()[:12]}"
