"""What an engine is made of: roles (warm parents), pools (actors on nodes with a resource), limits. Plain values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class RoleSpec:
    """A kind of warm parent: what it imports before it forks, what its children must not see, in which toolchain.

    An item of ``preload`` is a module, or ``module:function`` of one that is called after the import.
    ``blocked`` names modules; theirs are blocked too. ``python`` is the interpreter of an environment with tensorfarm.
    """

    preload: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    python: str = sys.executable


@dataclass(frozen=True)
class PoolSpec:
    """Up to ``actors`` supervisors, one a unit of ``resource``, each with ``slots`` jobs at once.

    A running job takes ``cores`` of its node's, or all of a smaller node.
    """

    name: str
    resource: str
    actors: int = 1
    slots: int = 2
    cores: int = 1


@dataclass(frozen=True)
class EngineConfig:
    """``address`` of a Ray cluster, or None to start one on this machine, bound to loopback.

    ``cores_per_node`` overrides what Ray counts. A job is given up ``grace_seconds`` after the sum of its steps'
    limits, and ``start_seconds`` later for each warm parent that it may have to wait for. A pool without a supervisor
    waits ``opening_seconds`` for one: so long may a dead node take to be replaced.
    """

    pools: tuple[PoolSpec, ...]
    roles: Mapping[str, RoleSpec]
    address: str | None = None
    cores_per_node: int | None = None
    grace_seconds: float = 30.0
    start_seconds: float = 120.0
    opening_seconds: float = 120.0
