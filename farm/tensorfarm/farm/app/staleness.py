"""What the store knows against the world as it is: this machine's toolchain, this gate, the files that are there.

A workload of another target than this machine's is not compared with this toolchain. ``--as-of`` moves the ages, never
the world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.cost_model.staleness import AgeLimits, Ages, Facts, Identity, reasons
from tensorfarm.farm.engine.toolchain import Toolchain, this_toolchain
from tensorfarm.farm.observe.presentation import Presentation
from tensorfarm.farm.observe.staleness_report import staleness_report
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.gate.attestation import gate_version

_DAY_SECONDS = 86_400.0


def staleness(store: Path, limit_days: float, as_of: datetime | None = None) -> Presentation:
    """Every workload with the set of reasons why its answer is stale. Measurements and models age by ``limit_days``.

    Refuses a store in which nothing was ever submitted.
    """
    layout = StoreLayout(store)
    with Reader(layout, as_of=as_of) as reader:
        rows = reader.named("report_staleness").to_pylist()
    if not rows:
        when = "" if as_of is None else f" before {as_of.isoformat()}"
        raise Refusal(f"store {store} holds no candidate{when}", next_step='run "farm sweep CONFIG" first')
    now, limit = as_of or datetime.now(UTC), limit_days * _DAY_SECONDS
    limits, toolchain, gate = replace(AgeLimits(), measurement=limit, model=limit), this_toolchain(), gate_version()
    found = [_judged(row, _facts(layout, row, now, toolchain, gate), limits) for row in rows]
    return staleness_report(found, limit_days)


def _facts(layout: StoreLayout, row: Mapping[str, Any], now: datetime, toolchain: Toolchain, gate: str) -> Facts:
    """What is compared for one row of the query ``report_staleness``."""
    here = row["target"] == toolchain.target
    recorded = Identity(
        program=row["semantic_hash"],
        contract=row["contract_hash"],
        toolchain=row["toolchain_id"],
        gate=row["gate_version"] or "",
        machine=row["machine"] or "",
        passes=_digests(row["pass_digests"]),
    )
    current = Identity(
        program=row["semantic_hash_now"] or "",
        contract=row["contract_hash_now"] or "",
        toolchain=toolchain.id if here else "",
        gate=gate,
        machine=row["machine_now"] or "",
        passes=_digests(row["pass_digests_now"]),
    )
    baseline_at = row["baseline_at"] if _is_kept(layout, row["baseline_sha256"], row["baseline_bytes"]) else None
    ages = Ages(_age(row["measured_at"], now), _age(baseline_at, now), _age(row["model_at"], now))
    present = _is_kept(layout, row["artifact_sha256"], row["artifact_bytes"])
    return Facts(recorded, current, ages, admitted=row["admitted"], artifact_present=present)


def _is_kept(layout: StoreLayout, sha256: str | None, size_bytes: int | None) -> bool:
    """Whether the cache has the file, of the size that was recorded. Its bytes are read again when it is served."""
    place = layout.artifacts / f"{sha256}.artifact"
    return place.is_file() and size_bytes in (None, place.stat().st_size)


def _judged(row: Mapping[str, Any], known: Facts, limits: AgeLimits) -> dict[str, Any]:
    names = ("workload", "subject", "sweep_id", "target", "candidate_id", "artifact_sha256", "submitted_at")
    ages = {f"{name}_days": None if age is None else age / _DAY_SECONDS for name, age in vars(known.ages).items()}
    return {name: row[name] for name in names} | ages | {"reasons": sorted(map(str, reasons(known, limits)))}


def _digests(text: str | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(json.loads(text or "{}").items()))


def _age(when: datetime | None, now: datetime) -> float | None:
    return None if when is None else max((now - when).total_seconds(), 0.0)
