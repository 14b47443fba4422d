"""The peaks and the cost model that a store holds, as this version reads them.

Invariant: what an earlier version wrote in another form is never taken for something that is not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.cost_model.calibrate import CostModel
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.farm.store.reader import Reader

_ANEW = 'run "farm calibrate" without --refit'


def newest_model(reader: Reader, target: str) -> CostModel | None:
    """The model that was calibrated last for ``target``; None where there is none. Refuses one of another format."""
    payload = _newest(reader, "CostModelCalibrated", target)
    try:
        return None if payload is None else CostModel.from_json(payload["model"])
    except (KeyError, ValueError):
        raise Refusal(
            f"the newest cost model of {target} is of another format",
            limit="a model that this version calibrated",
            next_step='run "farm calibrate"',
        ) from None


def newest_peaks(reader: Reader, target: str) -> Peaks:
    """The peaks that were measured last on ``target``. Refuses where there are none, or none of this format."""
    payload = _newest(reader, "PeaksMeasured", target)
    if payload is None:
        raise Refusal(f"the store holds no peaks of {target}", limit="--refit keeps the newest peaks", next_step=_ANEW)
    try:
        return Peaks.from_json(payload["peaks"])
    except (KeyError, ValueError):
        raise Refusal(
            f"the newest peaks of {target} are of another format",
            limit="peaks that this version measured",
            next_step=_ANEW,
        ) from None


def _newest(reader: Reader, kind: str, target: str) -> Mapping[str, Any] | None:
    rows = reader.named("cost_newest", type=kind, target=target).to_pylist()
    return json.loads(rows[0]["payload"]) if rows else None
