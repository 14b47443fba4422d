"""The inputs as captured: the first thing that every subject is tried on, and what most families are judged on."""

from __future__ import annotations

from tensorfarm.gate.inputs.refill import backward, copied
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "example"


def trial(setting: Setting) -> Trial:
    call = Call(copied(setting), backward(setting), seed=setting.seed)
    return Trial(NAME, (call,), Depth.BUDGET, suite=NAME)
