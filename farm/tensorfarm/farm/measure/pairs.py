"""The bench jobs: an admitted artifact against eager, or against another artifact of its workload, in pairs.

Each side runs in fresh processes of its own (``sides``), with the host to itself (``host_lock``). Samples stay in run
order, in seconds a step; where a step takes less than a millisecond, a sample is the mean of a few.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.inductor_runtime import RecompileBlocked
from tensorfarm.farm.measure.baseline import METRIC
from tensorfarm.farm.measure.host_lock import host_to_itself
from tensorfarm.farm.measure.sides import Samples, Schedule, Side, SideFailed, paired
from tensorfarm.farm.measure.steps import artifact_step, eager_step
from tensorfarm.farm.measure.verdict import Answer, judged, noise_floor, without_samples

PAIRED_METRIC = f"paired_{METRIC}"
_GROUPS_COMPARED, _ROUNDS_COMPARED, _SECONDS_COMPARED = 36, 6, 60.0


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Time the candidate's artifact against eager; returns rows of the ``measurements`` table.

    One pair of processes will do: an artifact may take seconds to load, and history only nominates.
    ``request``: program and artifact (paths), program_sha256, artifact_sha256, candidate_id, mode, pairs (number of
    ABBA groups), seed, threads. Raises SideFailed where a side raises, ``RecompileBlocked`` where the artifact's own
    code does not answer, and dies as a side died. ``noise_floor_ratio`` is eager's A/A: what this node can tell from 1.
    """
    eager = Side("eager", lambda: eager_step(request))
    candidate = Side("candidate", lambda: artifact_step(request, request))
    try:
        with host_to_itself():
            samples = paired((eager, candidate), Schedule(request["pairs"], rounds=1))
    except SideFailed as failed:
        _fail_alike(failed)
    rows = _rows(request, samples, METRIC)
    floor = noise_floor(samples.seconds["eager"], samples.groups)
    if floor < float("inf"):
        rows.append(_row(request, samples.device, "noise_floor_ratio", "ratio", "eager", [floor]))
    return {"measurements": rows}


def compare(request: Mapping[str, Any]) -> dict[str, Any]:
    """Time the candidate's artifact against a baseline's; returns the fields of ``Compared`` that a measurement knows.

    ``request`` as in ``measure``, without ``pairs`` and with ``baseline`` (its artifact, artifact_sha256, candidate_id)
    and ``threshold``. A baseline that does not load or run is an answer, ``inconclusive``; a candidate that does not is
    raised as in ``measure``.
    """
    candidate = Side("candidate", lambda: artifact_step(request, request))
    baseline = Side("baseline", lambda: artifact_step(request, request["baseline"]))
    threshold = float(request["threshold"])
    schedule = Schedule(_GROUPS_COMPARED, _ROUNDS_COMPARED, _SECONDS_COMPARED)
    try:
        with host_to_itself():
            samples = paired((candidate, baseline), schedule)
    except SideFailed as failed:
        if failed.side != "baseline":
            _fail_alike(failed)
        verdict = without_samples(Answer.INCONCLUSIVE, _absent(failed))
        return {**verdict.compared(METRIC, "cpu", threshold), "measurements": []}
    seconds = samples.seconds
    verdict = judged(seconds["candidate"], seconds["baseline"], samples.groups, samples.rounds, threshold)
    rows = _rows(request, samples, PAIRED_METRIC)
    return {**verdict.compared(METRIC, samples.device, threshold), "measurements": rows}


def _absent(failed: SideFailed) -> str:
    return f"the baseline does not run here: {failed.kind}: {failed.text}"


def _fail_alike(failed: SideFailed) -> NoReturn:
    """End as the side did, so that a candidate's death here is told apart as anywhere else."""
    if failed.kind == "signal":
        signal.signal(failed.code, signal.SIG_DFL)
        os.kill(os.getpid(), failed.code)
    if failed.kind == "exit":
        os._exit(failed.code)
    if failed.kind == RecompileBlocked.__name__:
        raise RecompileBlocked(failed.text) from None
    raise failed


def _rows(request: Mapping[str, Any], samples: Samples, metric: str) -> list[dict[str, Any]]:
    """Two rows a side. That of the first steps has one sample a round, so it also says how many rounds there were."""
    rows = [_row(request, samples.device, metric, "s", name, taken) for name, taken in samples.seconds.items()]
    return rows + [
        _row(request, samples.device, f"first_{metric}", "s", name, taken, warm=False)
        for name, taken in samples.first.items()
    ]


def _row(
    request: Mapping[str, Any],
    device: str,
    metric: str,
    unit: str,
    variant: str,
    samples: Sequence[float],
    *,
    warm: bool = True,
) -> dict[str, Any]:
    p10, p50, p90 = np.quantile(samples, (0.1, 0.5, 0.9)).tolist()
    return {
        "metric": metric,
        "unit": unit,
        "device": device,
        "environment_id": sha256_json({"threads": request["threads"], "torch": torch.__version__})[:16],
        "variant": variant,
        "warm": warm,
        "samples": list(samples),
        "p10": p10,
        "p50": p50,
        "p90": p90,
    }
