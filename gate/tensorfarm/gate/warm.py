"""What a process does once, before it forks the judges of many candidates: what each of them would do again alone."""

from __future__ import annotations

import yaml

from tensorfarm.contract.contract_template import Draft, rendered
from tensorfarm.contract.numerics import parse_contract
from tensorfarm.gate.attestation import gate_version
from tensorfarm.gate.examination import families

_ANY_DAY = "2026-01-01"


def judges() -> None:
    """Import every family, hash the gate's files, and read a contract: its schema is then compiled.

    Runs no operator of torch and starts no thread.
    """
    families()
    gate_version()
    parse_contract(yaml.safe_load(rendered(Draft("warm", _ANY_DAY, "float32", "float32", "float32"))))
