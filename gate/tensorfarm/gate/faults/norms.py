"""Normalisations whose epsilon is gone, or another one."""

from __future__ import annotations

from collections.abc import Iterator

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Operator
from tensorfarm.gate.faults.places import places

NORMS = ("layer_norm", "rms_norm", "group_norm", "batch_norm", "_native_batch_norm_legit_functional")


def _other_epsilons(program: Program) -> Iterator[Change]:
    for place in places(program, NORMS):
        epsilon = place.given.get("eps")
        if isinstance(epsilon, float) and epsilon > 0:
            for other in (0.0, epsilon / 10):
                yield place.change(f"epsilon {other:g}, not {epsilon:g}", _with_epsilon(other))


def _with_epsilon(epsilon: float) -> Operator:
    return lambda right, given: right({**given, "eps": epsilon})


FAULTS = (Fault("M05", ("forward", "conditioning"), "drops an epsilon, or takes a tenth of it", _other_epsilons),)
