"""How often a comparison cries wolf, and how often it finds the wolf, on a machine where something is always running.

Goals: of at least 500 A/A comparisons under load at most 1 % end as ``worse``; a step that does 1.2 times the work is
found in at least 90 % of the trials or called inconclusive. In the same run the usual ways have their
say on the same steps: a block of each side with Mann and Whitney's test, and medians more than 5 % apart.
``--quick`` does a tenth.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from report import Goal, finish
from scipy import stats

from tensorfarm.farm.measure.sides import Schedule, Side, Step, paired
from tensorfarm.farm.measure.verdict import ALPHA, Answer, judged

SIZE = 128
WORK = 100
COMPARED = Schedule(groups=12, rounds=6)  # a third of a sweep's comparison: 500 of them must end
BLOCK = 60
THRESHOLD = 0.05


def multiplies(work: int) -> Callable[[], Step]:
    """A side whose step goes over an array ``work`` times. No operation of it starts a thread, so forks are safe."""

    def prepare() -> Step:
        values = np.ones((SIZE, SIZE), dtype=np.float32)
        out = np.empty_like(values)

        def step() -> None:
            for _ in range(work):
                np.multiply(values, values, out=out)
                np.add(out, values, out=out)
                np.sqrt(out, out=out)

        return Step(step)

    return prepare


@contextlib.contextmanager
def load() -> Generator[None]:
    """One busy process a core, while it lasts. They end with this one, whatever ends it."""
    parent, busy = os.getpid(), []
    for _ in range(len(os.sched_getaffinity(0))):
        pid = os.fork()
        if pid == 0:
            while os.getppid() == parent:
                sum(range(100_000))
            os._exit(0)
        busy.append(pid)
    try:
        yield
    finally:
        for pid in busy:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def compared(candidate: int, baseline: int) -> tuple[Answer, float]:
    """The verdict of the farm, and the smallest ratio that it could have told from 1."""
    seen = paired((Side("candidate", multiplies(candidate)), Side("baseline", multiplies(baseline))), COMPARED)
    seconds = seen.seconds
    verdict = judged(seconds["candidate"], seconds["baseline"], seen.groups, seen.rounds, THRESHOLD)
    return verdict.answer, verdict.smallest_detectable


def in_blocks(candidate: int, baseline: int) -> dict[str, bool]:
    """What the usual ways say of "slower": all of one side's samples, then all of the other's, in one process."""
    over, under = (np.array(block(multiplies(work)().run)) for work in (candidate, baseline))
    slower = bool(np.median(over) > np.median(under))
    return {
        "blocks and Mann-Whitney": slower and bool(stats.mannwhitneyu(over, under).pvalue < ALPHA),
        "medians 5 % apart": bool(np.median(over) > (1 + THRESHOLD) * np.median(under)),
    }


def block(step: Callable[[], object]) -> list[float]:
    """Seconds of each of ``BLOCK`` steps, after a warm-up."""
    seconds: list[float] = []
    for _ in range(3 + BLOCK):
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    return seconds[3:]


@dataclass(frozen=True)
class Seen:
    """What one pair of cores saw; ``usual`` counts by way how often it said "slower"."""

    alike: list[tuple[Answer, float]]
    found: list[tuple[Answer, float]]
    usual: dict[str, Counter[str]]


def seen_on(cores: Sequence[int], same: int, slowed: int, judged_in_blocks: int) -> Seen:
    """So many comparisons of each kind on these cores alone, which something keeps busy."""
    os.sched_setaffinity(0, cores)
    usual: dict[str, Counter[str]] = {"same": Counter(), "slowed": Counter()}
    with load():
        alike = [compared(WORK, WORK) for _ in range(same)]
        found = [compared(WORK * 6 // 5, WORK) for _ in range(slowed)]
        for name, work in (("same", WORK), ("slowed", WORK * 6 // 5)):
            for _ in range(judged_in_blocks):
                usual[name].update(way for way, slower in in_blocks(work, WORK).items() if slower)
    return Seen(alike, found, usual)


def pairs_of_cores() -> list[tuple[int, int]]:
    """A wide machine is so many machines of two cores, side by side."""
    cores = sorted(os.sched_getaffinity(0))
    return list(zip(cores[::2], cores[1::2], strict=False))


def main() -> None:
    quick = "--quick" in sys.argv
    pairs = pairs_of_cores()
    each = [-(-count // len(pairs)) for count in ((40, 8, 20) if quick else (500, 40, 200))]
    same, slowed, judged_in_blocks = (count * len(pairs) for count in each)
    with ProcessPoolExecutor(len(pairs), multiprocessing.get_context("fork")) as pool:
        seen = list(pool.map(seen_on, pairs, *([count] * len(pairs) for count in each)))
    alike = [item for part in seen for item in part.alike]
    found = [item for part in seen for item in part.found]
    usual = {name: sum((part.usual[name] for part in seen), Counter[str]()) for name in ("same", "slowed")}
    told = {"same": Counter(answer for answer, _ in alike), "slowed": Counter(answer for answer, _ in found)}
    alarms = told["same"][Answer.WORSE] / same
    right = (told["slowed"][Answer.WORSE] + told["slowed"][Answer.INCONCLUSIVE]) / slowed
    goals = [
        Goal(f"false alarms of {same} A/A comparisons under load", "<= 0.01", alarms, alarms <= 0.01),
        Goal(f"of {slowed} slow-downs of 20 %, found or called inconclusive", ">= 0.9", right, right >= 0.9),
    ]
    details: dict[str, object] = {
        "pairs of cores side by side": len(pairs),
        "verdicts": {name: dict(counts) for name, counts in told.items()},
        "smallest detectable ratio, median": float(np.median([smallest for _, smallest in alike])),
        "slow-downs found": told["slowed"][Answer.WORSE] / slowed,
        "usual ways: false alarms": {way: count / judged_in_blocks for way, count in usual["same"].items()},
        "usual ways: slow-downs found": {way: count / judged_in_blocks for way, count in usual["slowed"].items()},
    }
    for name, value in details.items():
        print(f"{name}: {value}")
    finish("measurement-quick" if quick else "measurement", goals, details)


if __name__ == "__main__":
    main()
