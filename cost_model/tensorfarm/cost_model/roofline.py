"""The analytic time of a step: for each kernel its dispatch, and the slowest of computing, moving and costly functions.

Written as a sum of columns, one for each kind of work and each cause, so that a calibration can scale a cause without
leaving physics. Invariant: with every factor at its prior the sum of columns is the analytic time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorfarm.cost_model.features import Features
from tensorfarm.cost_model.peaks import Peaks, rate
from tensorfarm.cost_model.shrinkage import Vector
from tensorfarm.cost_model.work import EXTERNAL, Rows, Work, WorkKind

CAUSES = ("dispatch", "roof", "heavy", "strided", "cold")
COLUMNS = (*(f"{kind.value}.{cause}" for kind in WorkKind for cause in CAUSES), "step")
PRIOR: Vector = np.ones(len(COLUMNS))
# Which column is of which cause: shape (columns, causes), the step being a cause of its own.
CAUSE_OF = np.array([[float(name.endswith(cause)) for cause in (*CAUSES, "step")] for name in COLUMNS])

# A step is more than a module's call: gradients are switched off and on, and everything starts out of cold caches.
# Entering compiled code also checks its guards and binds its arguments.
_STEPS, _COMPILED_STEPS = 5.0, 20.0


def rows_of(features: Features, backend: str) -> Rows:
    """A fusing backend runs groups, any other operator by operator."""
    return features.groups if fuses(backend) else features.ops


def fuses(backend: str) -> bool:
    return backend == "inductor"


def columns(features: Features, backend: str, peaks: Peaks) -> Vector:
    """Seconds by column, shape ``(len(COLUMNS),)``."""
    found = dict.fromkeys(COLUMNS, 0.0)
    fused = fuses(backend)
    for work, count in rows_of(features, backend):
        for cause, seconds in _causes(work, peaks, features.footprint_bytes, fused).items():
            found[f"{work.kind.value}.{cause}"] += count * seconds
    found["step"] = peaks.dispatch_seconds["step"] * (_COMPILED_STEPS if fused else _STEPS)
    return np.array([found[name] for name in COLUMNS])


def _causes(work: Work, peaks: Peaks, footprint: int, fused: bool) -> Mapping[str, float]:
    """Seconds by cause. All but the dispatch and the roof are what a cause adds to these."""
    if work.kind is WorkKind.VIEW:
        return {} if fused else {"dispatch": work.ops * peaks.dispatch_seconds["view"]}
    whole = fused and work.kind not in EXTERNAL
    bandwidth = rate(peaks.bandwidth, work.bytes_moved)
    roof = max(_computing(work, peaks), work.bytes_moved / bandwidth)
    heavy = sum(elements / peaks.functions[name] for name, elements in work.heavy)
    turned = 1 / rate(peaks.turned, work.bytes_moved) - 1 / bandwidth
    # What the step before touched last has been driven out by everything since.
    distant = 1 / rate(peaks.bandwidth, max(footprint, work.bytes_moved)) - 1 / bandwidth
    return {
        "dispatch": peaks.dispatch_seconds["kernel"] if whole else work.ops * peaks.dispatch_seconds[work.kind.value],
        "roof": roof,
        "heavy": max(0.0, heavy - roof),
        "strided": work.strided_bytes * max(0.0, turned),
        "cold": work.cold_bytes * max(0.0, distant),
    }


def _computing(work: Work, peaks: Peaks) -> float:
    if not work.flops:
        return 0.0
    curve = peaks.convolutions if work.kind is WorkKind.CONVOLUTION else peaks.products
    return work.flops / rate(curve, work.grain)
