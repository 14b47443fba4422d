"""Rows that stand in several batches, for telling whether a row's result hangs on how many others there are.

The trials are the ladder's, where each size holds the first rows of the larger ones, and some rows alone.
"""

from __future__ import annotations

from tensorfarm.gate.inputs import ladder
from tensorfarm.gate.inputs.refill import copied, wanting
from tensorfarm.gate.setting import Setting
from tensorfarm.gate.trial import Call, Depth, Trial

NAME = "batch:alone"


def trials(setting: Setting) -> list[Trial]:
    """The ladder's trials from size 1, and ``batch:alone:ROW``."""
    shared = {ladder.name_of(size) for size in ladder.sizes(setting) if size}
    found = [trial for trial in ladder.trials(setting) if trial.name in shared]
    longest = ladder.pool(setting, ladder.batch_axis(setting), max(ladder.sizes(setting), default=0))
    for row in rows_alone(setting):
        alone = {name: value.narrow(0, row, 1).clone() for name, value in longest.items()}
        call = Call(wanting(setting, copied(setting) | alone), seed=setting.seed)
        found.append(Trial(f"{NAME}:{row}", (call,), Depth.ITSELF, suite=ladder.NAME))
    return found


def rows_alone(setting: Setting) -> tuple[int, ...]:
    """The second row and the last of the largest batch; the first is alone in the ladder's size 1."""
    largest = max(ladder.sizes(setting), default=0)
    return tuple(sorted({row for row in (1, largest - 1) if 0 < row < largest}))


def places(setting: Setting) -> dict[str, dict[int, int]]:
    """By trial, which row of the pool is at which place of the batch."""
    found = {ladder.name_of(size): {row: row for row in range(size)} for size in ladder.sizes(setting) if size}
    return found | {f"{NAME}:{row}": {row: 0} for row in rows_alone(setting)}
