"""Two processes in lock-step: whose samples are whose, what a slow, dead or broken side looks like; the host's lock."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorfarm.farm.measure.host_lock import LOCK_NAME, host_to_itself
from tensorfarm.farm.measure.sides import Schedule, Side, SideFailed, Step, paired
from tensorfarm.farm.measure.verdict import Answer, judged


def sleeps(seconds: float) -> Callable[[], Step]:
    return lambda: Step(lambda: time.sleep(seconds))


def raises() -> Step:
    raise ValueError("this side cannot be loaded")


def dies() -> Step:
    return Step(lambda: os.kill(os.getpid(), signal.SIGKILL))


def leaves() -> Step:
    os._exit(7)


def test_a_side_that_takes_longer_is_found_by_its_own_name() -> None:
    slow, fast = Side("candidate", sleeps(60e-3)), Side("baseline", sleeps(10e-3))
    seen = paired((slow, fast), Schedule(groups=12, rounds=4))
    seconds = seen.seconds
    assert (seen.groups, seen.rounds, len(seen.first["candidate"])) == (12, 4, 4)
    verdict = judged(seconds["candidate"], seconds["baseline"], seen.groups, seen.rounds, 0.05)
    assert verdict.answer in (Answer.WORSE, Answer.INCONCLUSIVE)  # a busy machine may not let it be told
    assert verdict.ratio > 1.5


def test_each_round_has_two_fresh_processes_of_its_own(tmp_path: Path) -> None:
    def noted() -> Step:
        (tmp_path / str(os.getpid())).touch()
        return Step(lambda: time.sleep(2e-3))

    paired((Side("candidate", noted), Side("baseline", noted)), Schedule(groups=3, rounds=3))
    pids = {int(path.name) for path in tmp_path.iterdir()}
    assert len(pids) == 6
    assert os.getpid() not in pids


def test_the_sides_take_turns_and_never_run_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def logged(name: str) -> Callable[[], Step]:
        def step() -> None:
            with log.open("a") as stream:
                stream.write(f"{name}+\n")
                stream.flush()
                time.sleep(20e-3)
                stream.write(f"{name}-\n")

        return lambda: Step(step)

    paired((Side("a", logged("a")), Side("b", logged("b"))), Schedule(groups=2, rounds=1))
    lines = log.read_text().split()[4:]  # the first steps may run side by side
    assert [line[1] for line in lines] == ["+", "-"] * (len(lines) // 2)
    assert [line[0] for line in lines[-16::2]] == list("abbabaab")


def test_a_short_step_is_repeated_until_a_sample_is_long_enough() -> None:
    def counted() -> Step:
        calls = 0

        def step() -> None:
            nonlocal calls
            calls += 1

        return Step(step)

    seen = paired((Side("a", counted), Side("b", counted)), Schedule(groups=1, rounds=1))
    assert len(seen.seconds["a"]) == len(seen.seconds["b"]) == 10
    assert max(seen.seconds["a"]) < 1e-3


def test_a_dear_step_gets_fewer_groups_but_two_a_round() -> None:
    seen = paired((Side("a", sleeps(20e-3)), Side("b", sleeps(20e-3))), Schedule(groups=50, rounds=2, seconds=1e-3))
    assert seen.groups == 4


@pytest.mark.parametrize(
    ("prepare", "kind", "code"), [(raises, "ValueError", 0), (dies, "signal", signal.SIGKILL), (leaves, "exit", 7)]
)
def test_a_side_that_goes_wrong_is_named_with_what_happened(
    prepare: Callable[[], Step], kind: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SideFailed) as failed:
        paired((Side("candidate", sleeps(1e-3)), Side("baseline", prepare)), Schedule(groups=2, rounds=1))
    assert (failed.value.side, failed.value.kind, failed.value.code) == ("baseline", kind, code)


def hold(folder: str, held: str) -> None:
    os.environ["TMPDIR"] = folder
    with host_to_itself():
        Path(held).touch()
        time.sleep(600)


def test_one_measurement_at_a_time_and_a_dead_holder_lets_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    first, second = (context.Process(target=hold, args=(str(tmp_path), str(tmp_path / name))) for name in "ab")
    first.start()
    waited_for(tmp_path / "a")
    second.start()
    time.sleep(3)
    assert (tmp_path / LOCK_NAME).exists()
    assert not (tmp_path / "b").exists()
    first.kill()
    waited_for(tmp_path / "b")
    second.kill()
    with host_to_itself():
        pass


def waited_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
