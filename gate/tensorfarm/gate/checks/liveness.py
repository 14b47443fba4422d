"""F25, liveness: a check that cannot fail proves nothing, so every family has failed its own canary in the same run."""

from __future__ import annotations

from collections.abc import Mapping

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.finding import Finding, inapplicable, passed

NAME, FAMILY = "liveness", "F25"


def findings(canaries: Mapping[str, bool | None]) -> list[Finding]:
    """One for each family: its planted fault was found (True), was let pass (False), or had no place (None)."""
    return [_finding(name, killed) for name, killed in canaries.items()]


def _finding(name: str, killed: bool | None) -> Finding:
    if killed is None:
        return inapplicable(NAME, f"{name}: nothing to plant a fault in")
    if killed:
        return passed(NAME, name, 1)
    message = f"{name}: it let its own planted fault pass, so nothing that it says is believed"
    return Finding(NAME, name, Status.NOT_RUN, message)
