"""The nine ways a candidate can end. Never collapsed into a boolean, never merged with one another."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Outcome(StrEnum):
    ADMITTED = "admitted"
    STRUCTURAL_REJECTION = "structural_rejection"
    COMPILE_FAILURE = "compile_failure"
    SEMANTIC_DRIFT = "semantic_drift"
    CONFORMANCE_FAILURE = "conformance_failure"
    PERFORMANCE_REGRESSION = "performance_regression"
    TASK_REJECTION = "task_rejection"
    INFRASTRUCTURE_EXHAUSTED = "infrastructure_exhausted"
    UNDECIDED = "undecided"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


class FailureKind(StrEnum):
    """What a failed compilation or a dead subject died of."""

    UNSUPPORTED = "unsupported"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    BUDGET_EXCEEDED = "budget_exceeded"


class Status(StrEnum):
    """What one check, or a whole verdict, says."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDABLE = "undecidable"
    NOT_RUN = "not_run"


_EXIT_CODES = {
    Outcome.ADMITTED: 0,
    Outcome.STRUCTURAL_REJECTION: 10,
    Outcome.COMPILE_FAILURE: 11,
    Outcome.SEMANTIC_DRIFT: 12,
    Outcome.CONFORMANCE_FAILURE: 13,
    Outcome.PERFORMANCE_REGRESSION: 14,
    Outcome.TASK_REJECTION: 15,
    Outcome.INFRASTRUCTURE_EXHAUSTED: 16,
    Outcome.UNDECIDED: 17,
}
_MOST_SEVERE_FIRST = (12, 13, 11, 10, 14, 16, 17, 15)

INTERNAL_ERROR_EXIT_CODE = 1
USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130


def sweep_exit_code(outcomes: Iterable[Outcome]) -> int:
    """Exit code of the most severe outcome, in the order 12, 13, 11, 10, 14, 16, 17, 15; 0 where all were admitted."""
    codes = {outcome.exit_code for outcome in outcomes}
    return next((code for code in _MOST_SEVERE_FIRST if code in codes), 0)
