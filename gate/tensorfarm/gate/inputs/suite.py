"""A suite of the contract as a trial: one call, every floating input with values drawn for it."""

from __future__ import annotations

from tensorfarm.gate.inputs.refill import Draw, floats, refilled
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial


def declared(setting: Setting, suite: str) -> bool:
    """False where the contract leaves the suite out, or no input is floating."""
    return suite in setting.contract.suites and bool(floats(setting))


def drawn_trial(
    setting: Setting,
    suite: str,
    draw: Draw,
    derivative: Derivative,
    *,
    name: str = "",
    depth: Depth = Depth.BUDGET,
    between: str = "",
) -> Trial | None:
    """None where the suite is not declared. The name is the suite's unless it has several trials."""
    if not declared(setting, suite):
        return None
    # Whoever calls with inputs copies them, so that one drawing does for all who ask.
    inputs = setting.drawn.get(name or suite)
    if inputs is None:
        inputs = setting.drawn[name or suite] = refilled(setting, name or suite, draw)
    call = Call(inputs, derivative, between=between, seed=setting.seed)
    return Trial(name or suite, (call,), depth, suite=suite)
