"""Which pools a farm has and what its children are forked from."""

from __future__ import annotations

import os

from tensorfarm.farm.engine.pool import EngineConfig, PoolSpec, RoleSpec

# Imported by the parents once, so that each child starts warm. The judge's parent imports no compiler.
_WORKER_MODULES = (
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.cpp_builder",
    "transformers",
    "tensorfarm.compiler.compile",
    "tensorfarm.gate.subject.run",
    "tensorfarm.farm.measure.pairs",
    "tensorfarm.farm.app.capturing",
)
_JUDGE_MODULES = ("torch", "transformers", "tensorfarm.gate.judge")


def engine_config(address: str | None) -> EngineConfig:
    """Pools for this machine, or for the cluster at ``address``.

    Compiling and gating share the cores; a measurement has a node to itself.
    """
    cores = os.cpu_count() or 1
    return EngineConfig(
        pools=(
            PoolSpec("compile", resource="farm_compile", actors=max(1, cores // 2), slots=min(cores, 2), cores_per_job=1),
            PoolSpec("gate", resource="farm_gate", actors=max(1, cores // 2), slots=min(cores, 2), cores_per_job=1),
            PoolSpec("bench", resource="farm_bench", actors=1, slots=1, cores_per_job=cores),
        ),
        roles={"worker": RoleSpec(preload=_WORKER_MODULES), "judge": RoleSpec(preload=_JUDGE_MODULES)},
        address=address,
        cores_per_node=cores,
    )
