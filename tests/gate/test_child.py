"""A child that misbehaves cannot keep, fill or outlive whoever waits for it. Children here load nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.child import Ended, leave_refusal, refusal_in, run_child
from tensorfarm.gate.limits import Limits, limits_here


def run(code: str, seconds: float | None = 60.0) -> Ended:
    return run_child([sys.executable, "-I", "-S", "-c", f"import os, signal, sys, time; {code}"], Limits(seconds))


ENDS = {
    "os._exit(0)": (0, "exit code 0"),
    "sys.exit(0)": (0, "exit code 0"),
    "sys.exit('enough')": (1, "exit code 1; it last printed: enough"),
    "raise ValueError('no kernel')": (1, "exit code 1; it last printed: ValueError: no kernel"),
    "os.kill(os.getpid(), signal.SIGKILL)": (-9, "SIGKILL, memory may have run out"),
    "os.kill(os.getpid(), signal.SIGSEGV)": (-11, "SIGSEGV"),
    "os.kill(os.getpid(), 40)": (-40, "signal 40"),
    "os.closerange(0, 3)": (0, "exit code 0"),
}


@pytest.mark.parametrize("code", ENDS)
def test_every_end_has_its_code_and_its_words(code: str) -> None:
    returncode, words = ENDS[code]
    ended = run(code)
    assert (ended.returncode, ended.death) == (returncode, words)


def test_a_child_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    ended = run(f"open({str(file)!r}, 'w').write(str(os.fork() or os.getpid())); time.sleep(3600)", 1.0)
    assert (ended.returncode, ended.death) == (None, "no answer within 1 seconds")
    assert gone(int(file.read_text()))


def test_a_child_that_takes_more_memory_than_it_may_is_refused_it_and_so_is_what_it_starts() -> None:
    code = "import subprocess, sys; eats = 'print(len(bytearray(1 << 29)))'; "
    code += "sys.exit(subprocess.run([sys.executable, '-I', '-S', '-c', eats]).returncode)"
    command = [sys.executable, "-I", "-S", "-c", code]
    assert run_child(command, Limits(60.0, 1 << 30)).returncode == 0
    assert run_child(command, Limits(60.0, 1 << 28)).death == "exit code 1; it last printed: MemoryError"


def test_a_child_may_take_what_memory_nobody_else_uses() -> None:
    held = limits_here().memory_bytes
    assert held is not None
    assert 1 << 26 < held < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_what_a_child_left_running_ends_with_it_and_its_open_pipe_keeps_nobody() -> None:
    """The second process leaves the group, and holds the pipe."""
    started = time.monotonic()
    inside = run("pid = os.fork(); pid or time.sleep(3600); print(pid, file=sys.stderr)")
    assert gone(int(inside.said))
    outside = run("pid = os.fork(); pid or (os.setsid(), time.sleep(20)); print(pid, file=sys.stderr)")
    assert outside.returncode == 0
    # Far from the time that the process which left lives.
    assert time.monotonic() - started < 20


def test_a_parent_that_is_killed_takes_its_child_along(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    path = f"import os, sys, time; sys.path[:] = {sys.path!r}; from tensorfarm.gate import child"
    step = f"lambda: (open({str(file)!r}, 'w').write(str(os.getpid())), time.sleep(3600))"
    command = [sys.executable, "-I", "-S", "-c", f"{path}; child.leave_with({step})"]
    parent = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"{path}; child.run_child({command!r})"])
    until = time.monotonic() + 60
    while not (file.is_file() and file.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    assert gone(int(file.read_text()))


def test_megabytes_of_words_are_read_and_the_last_line_is_kept() -> None:
    ended = run("[os.write(number, b'x' * (1 << 22)) for number in (1, 2)]; sys.stderr.write('\\nthe end\\n')")
    assert (ended.returncode, ended.said) == (0, "the end")


def test_a_refusal_travels_with_all_that_it_says_and_is_no_answer(tmp_path: Path) -> None:
    place = tmp_path / "prepare.json"
    assert refusal_in(place) is None
    assert leave_refusal(place, Refusal("a fact", limit="a limit", next_step="a step", exit_code=10)) == 10
    told = refusal_in(place)
    assert told is not None
    assert (str(told), told.exit_code) == ("a fact (a limit); a step", 10)
    place.write_text('{"cached": true}')
    assert refusal_in(place) is None


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Within some time: what is killed takes a moment, and a zombie may wait for whoever reaps orphans here."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as stream:
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_process_that_lives_is_not_called_gone() -> None:
    assert not gone(os.getpid(), 0.02)
