"""Which pools a farm has and what its children are forked from."""

from __future__ import annotations

import os

from tensorfarm.farm.engine.config import EngineConfig, PoolSpec, RoleSpec

# Imported by the parents once, so that each child starts warm. A judge's parent imports no code generator; our compiler
# is in a worker's alone.
_RUNTIME = (
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    # What a first compilation imports by the way: half a second of each child.
    "torch._dynamo.repro.after_dynamo",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch.distributed.tensor.experimental",
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.codegen.pallas",
    "tensorfarm.contract.inductor_probe",
)
_ROLES = {
    "worker": (
        *_RUNTIME,
        "transformers",
        "tensorfarm.compiler.compile",
        "tensorfarm.compiler.backends.fx",
        "tensorfarm.compiler.backends.inductor",
        "tensorfarm.farm.app.capturing",
        "tensorfarm.farm.app.compiling",
        "tensorfarm.farm.app.reproducing",
    ),
    "subject": (*_RUNTIME, "tensorfarm.gate.subject.run", "tensorfarm.farm.measure.pairs"),
    "judge": ("torch", "transformers", "tensorfarm.gate.judge", "tensorfarm.gate.warm:judges"),
}


# More units of one resource than a cluster offers: there, a pool has a supervisor for each unit.
_EVERY_UNIT = 1 << 16
_SLOTS = 2


def engine_config(address: str | None) -> EngineConfig:
    """Pools for this machine, or for the cluster at ``address``: there, its nodes' resources say how many are at work.

    Compiling and gating share the cores; a measurement has a node to itself.
    """
    cores = os.cpu_count() or 1
    actors = max(1, cores // 2) if address is None else _EVERY_UNIT
    benches = 1 if address is None else _EVERY_UNIT
    return EngineConfig(
        pools=(
            PoolSpec("compile", resource="farm_compile", actors=actors, slots=_SLOTS),
            PoolSpec("gate", resource="farm_gate", actors=actors, slots=_SLOTS),
            PoolSpec("bench", resource="farm_bench", actors=benches, slots=1),
        ),
        roles={name: RoleSpec(preload=modules) for name, modules in _ROLES.items()},
        address=address,
        cores_per_node=cores if address is None else None,
    )
