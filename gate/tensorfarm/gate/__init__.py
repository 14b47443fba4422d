"""Proves an artifact against its contract: oracle, budgets, runners, checks, verdicts. No compiler code.

As a library: ``certify(reference, compiled, inputs)`` gives a ``Certificate``, which is a ``Verdict``. Names are looked
up when they are asked for, so that a subject's process never loads the judge, nor pytest torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorfarm.contract.outcome import Outcome, Status
    from tensorfarm.contract.refusal import Refusal
    from tensorfarm.gate.attestation import Certificate
    from tensorfarm.gate.finding import Finding
    from tensorfarm.gate.library import certify
    from tensorfarm.gate.verdict import Verdict

__all__ = ["Certificate", "Finding", "Outcome", "Refusal", "Status", "Verdict", "certify"]

_PLACES = {
    "Certificate": "tensorfarm.gate.attestation",
    "Finding": "tensorfarm.gate.finding",
    "Outcome": "tensorfarm.contract.outcome",
    "Refusal": "tensorfarm.contract.refusal",
    "Status": "tensorfarm.contract.outcome",
    "Verdict": "tensorfarm.gate.verdict",
    "certify": "tensorfarm.gate.library",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
