"""A verdict with everything that stands behind it: who judged, where, by which gate, and whether in a process apart.

Invariant: a certificate and its JSON say the same; one that was read back is the one that was written.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.digest import sha256_json, sha256_tree
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Outcome, Status
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.seal import CODE_GENERATORS, COMPILERS, Seal
from tensorfarm.gate.setting import Level
from tensorfarm.gate.verdict import Verdict

# Of ``attestation["isolation"]``.
APART, IN_PLACE = "process", "none"


@dataclass(frozen=True)
class Certificate(Verdict):
    """``attestation`` says how it was judged; its ``isolation`` is ``process``, or ``none`` for live objects."""

    seed: int
    gate_version: str
    attestation: Mapping[str, Any]

    @property
    def level(self) -> str:
        return str(self.attestation.get("level", ""))

    def as_json(self) -> dict[str, Any]:
        """What a gate run returns, the attestation as a mapping. Numbers JSON cannot hold are strings."""
        return {
            "status": self.status.value,
            "outcome": self.outcome.value,
            "outcome_kind": self.kind,
            "message": self.message,
            "findings": [finding.row(self.seed) for finding in self.findings],
            "gate_version": self.gate_version,
            "attestation": dict(self.attestation),
        }


def certificate_of(result: Mapping[str, Any]) -> Certificate:
    """The certificate that a gate run returned as JSON."""
    told = result["attestation"]
    rows = result["findings"]
    outcome = Outcome(result["outcome"])
    # Rows of an earlier gate do not say what was required: where all was admitted, no doubt was.
    strict = outcome is not Outcome.ADMITTED
    return Certificate(
        Status(result["status"]),
        outcome,
        result["outcome_kind"],
        result["message"],
        tuple(finding_of({"required": strict, **row}) for row in rows),
        seed=int(rows[0]["seed"]) if rows else 0,
        gate_version=result["gate_version"],
        attestation=json.loads(told) if isinstance(told, str) else told,
    )


def certified(verdict: Verdict, seed: int, gate_version: str, attestation: Mapping[str, Any]) -> Certificate:
    told = {field.name: getattr(verdict, field.name) for field in fields(Verdict)}
    return Certificate(**told, seed=seed, gate_version=gate_version, attestation=attestation)


@cache
def gate_version() -> str:
    """Changes with any line of the gate and with the torch that judges: an old expectation is then never read."""
    return f"gate/2+{sha256_tree(Path(__file__).parent)[:12]}+torch{torch.__version__}"


def apart(contract: NumericalContract, level: Level, seal: Seal, subject: Mapping[str, Any]) -> dict[str, Any]:
    """Attestation of what was judged by processes of its own. ``subject`` is what the subject's says of itself."""
    return {**_attested(APART, seal.evidence(), contract, level), "subject": dict(subject)}


def in_place(contract: NumericalContract, level: Level) -> dict[str, Any]:
    """Attestation of what was judged in the process that holds it. Compilers that are loaded there are named."""
    loaded = sorted(sys.modules)
    within = tuple(f"{name}." for name in (*COMPILERS, *CODE_GENERATORS))
    seal = {
        "sealed": [],
        "attempts": [],
        "launcher": [name for name in loaded if f"{name}.".startswith(within)],
        "modules": len(loaded),
        "modules_sha256": sha256_json(loaded),
    }
    return _attested(IN_PLACE, seal, contract, level)


def _attested(isolation: str, seal: Mapping[str, Any], contract: NumericalContract, level: Level) -> dict[str, Any]:
    return {
        "isolation": isolation,
        "seal": dict(seal),
        "level": level.name.lower(),
        "contract": contract.hash,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "node": platform.node(),
        "pid": os.getpid(),
    }


def finding_of(row: Mapping[str, Any]) -> Finding:
    """The finding of a row of the ``verdicts`` table."""
    return Finding(
        check_name=row["check_name"],
        what=row["what"],
        status=Status(row["status"]),
        message=row["message"],
        observed_over_limit=float(row["observed_over_limit"]),
        digits=float(row["digits"]),
        worst_index=tuple(row["worst_index"]),
        worst_expected=float(row["worst_expected"]),
        worst_seen=float(row["worst_seen"]),
        limit_abs=float(row["limit_abs"]),
        n_elements=int(row["n_elements"]),
        n_bad=int(row["n_bad"]),
        wall_ns=int(row["wall_ns"]),
        required=bool(row["required"]),
        device=row["device"],
        layout=row["layout"],
        input_suite=row["input_suite"],
        # An earlier gate's rows have no parts of their message.
        next_step=row.get("next_step", ""),
        original_errs=row.get("original_errs", ""),
        slight=row.get("slight", False),
    )
