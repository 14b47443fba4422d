"""A child's death is read from its exit status, what was done to it and what it left."""

import json
import signal
from dataclasses import replace

import pytest

from tensorfarm.farm.engine.postmortem import Death, outcome_of

CLEAN = Death(
    wait_status=0,
    killed_for="",
    report=json.dumps({"status": "completed", "value": {"x": 1}}).encode(),
    printed="",
    seconds=1.5,
    peak_bytes=7 << 20,
    limit_seconds=1.0,
    limit_bytes=4 << 20,
)


def raised(kind: str, message: str) -> bytes:
    report = {"status": "raised", "kind": kind, "message": message, "refusal": {}, "traceback": "Traceback"}
    return json.dumps(report).encode()


def test_a_report_and_a_clean_exit_are_an_answer() -> None:
    outcome = outcome_of(CLEAN)
    assert (outcome.status, outcome.value, outcome.seconds) == ("completed", {"x": 1}, 1.5)


def test_a_report_does_not_save_a_child_that_died_after_it() -> None:
    assert outcome_of(replace(CLEAN, wait_status=signal.SIGSEGV)).kind == "signal"
    assert outcome_of(replace(CLEAN, wait_status=7 << 8)).kind == "exit"
    assert outcome_of(replace(CLEAN, wait_status=signal.SIGKILL, killed_for="timeout")).kind == "timeout"


@pytest.mark.parametrize("report", [b"", b"{", b"[]", b'{"status": "admitted"}', b"\xff"])
def test_an_unreadable_report_is_no_answer(report: bytes) -> None:
    outcome = outcome_of(replace(CLEAN, report=report))
    assert (outcome.status, outcome.kind) == ("died", "exit")
    assert "without an answer" in outcome.message


def test_messages_name_the_signal_and_the_limits() -> None:
    assert "SIGSEGV" in outcome_of(replace(CLEAN, wait_status=signal.SIGSEGV)).message
    killed = replace(CLEAN, wait_status=signal.SIGKILL)
    assert outcome_of(replace(killed, killed_for="timeout")).message == "killed after 1.5 s (limit 1 s)"
    assert outcome_of(replace(killed, killed_for="out_of_memory")).message == "killed holding 7 MiB (limit 4 MiB)"


def test_the_last_line_printed_is_kept_and_the_interpreters_own_account_is_not() -> None:
    printed = "loading\nassertion failed in kernel 7\nFatal Python error: Aborted\n\n  File x.py, line 1\n"
    outcome = outcome_of(replace(CLEAN, wait_status=signal.SIGABRT, printed=printed))
    assert outcome.message == "died of SIGABRT; it last printed: assertion failed in kernel 7"
    assert outcome.traceback == printed


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("MemoryError", ""),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to"),
        ("CppCompileError", "cc1plus: out of memory allocating 65536 bytes"),
        ("OSError", "[Errno 12] Cannot allocate memory"),
    ],
)
def test_an_allocators_exception_is_out_of_memory(kind: str, message: str) -> None:
    outcome = outcome_of(replace(CLEAN, report=raised(kind, message)))
    assert (outcome.status, outcome.kind) == ("died", "out_of_memory")
    assert "4 MiB" in outcome.message


def test_an_abort_from_bad_alloc_is_out_of_memory_and_another_abort_is_not() -> None:
    aborted = replace(CLEAN, wait_status=signal.SIGABRT)
    bad_alloc = "terminate called after throwing an instance of 'std::bad_alloc'"
    assert outcome_of(replace(aborted, printed=bad_alloc)).kind == "out_of_memory"
    assert outcome_of(replace(aborted, printed="assertion failed")).kind == "signal"


def test_an_exception_that_only_talks_of_memory_stays_what_it_is() -> None:
    outcome = outcome_of(replace(CLEAN, report=raised("Refusal", "the pass ran out of memory words")))
    assert (outcome.status, outcome.kind) == ("raised", "Refusal")
