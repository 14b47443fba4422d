"""A finding: what one check says about one thing. The rows of the ``verdicts`` table.

Statuses are pass, fail, undecidable and not_run, never a boolean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.trial import MAIN, Session, Trial


@dataclass(frozen=True)
class Finding:
    """``what`` names the thing (``output 0``, ``gradient encoder.weight``); ``message`` is a sentence where it fails.

    ``observed_over_limit`` is the worst element's error over its limit; ``digits`` how many decimal digits its limit
    leaves; both infinite where no number applies. Elements are counted, times are nanoseconds. A check that does not
    apply to a subject says so as ``NOT_RUN`` with ``required`` false: it keeps nothing from being admitted.

    ``next_step`` says what can be done about it, ``original_errs`` how far from float64 the original itself is at the
    worst element; where a message says them too, it ends with them. ``slight``: a flag or a stride alone is another.
    """

    check_name: str
    what: str
    status: Status
    message: str = ""
    observed_over_limit: float = 0.0
    digits: float = math.inf
    worst_index: tuple[int, ...] = ()
    worst_expected: float = 0.0
    worst_seen: float = 0.0
    limit_abs: float = 0.0
    n_elements: int = 0
    n_bad: int = 0
    wall_ns: int = 0
    required: bool = True
    device: str = MAIN.device
    layout: str = "as_captured"
    input_suite: str = "example"
    next_step: str = ""
    original_errs: str = ""
    slight: bool = False

    @property
    def fact(self) -> str:
        """The message up to where it goes on with what to do, or with what the original errs by."""
        told = self.message.removesuffix(f"; {self.original_errs}") if self.original_errs else self.message
        return told.removesuffix(f"; {self.next_step}") if self.next_step else told

    def at(self, trial: Trial, session: Session = MAIN) -> Finding:
        """The same finding, said of a trial and a session."""
        return replace(self, device=session.device, layout=trial.layout, input_suite=trial.suite)

    def row(self, seed: int) -> dict[str, Any]:
        """Columns of the ``verdicts`` table that a check fills, and the parts of its message; numbers JSON cannot hold
        are strings."""
        columns: Mapping[str, Any] = {
            "check_name": self.check_name,
            "what": self.what,
            "device": self.device,
            "layout": self.layout,
            "input_suite": self.input_suite,
            "status": self.status.value,
            "message": self.message,
            "observed_over_limit": self.observed_over_limit,
            "digits": self.digits,
            "worst_index": list(self.worst_index),
            "worst_expected": self.worst_expected,
            "worst_seen": self.worst_seen,
            "limit_abs": self.limit_abs,
            "n_elements": self.n_elements,
            "n_bad": self.n_bad,
            "seed": seed,
            "wall_ns": self.wall_ns,
            "required": self.required,
            "next_step": self.next_step,
            "original_errs": self.original_errs,
            "slight": self.slight,
        }
        return {key: _storable(value) for key, value in columns.items()}


def failed(check_name: str, what: str, message: str) -> Finding:
    """A failure that no element explains: something is missing, or of another kind."""
    return Finding(check_name, what, Status.FAIL, f"{what}: {message}", observed_over_limit=math.inf)


def passed(check_name: str, what: str, n_elements: int = 0) -> Finding:
    return Finding(check_name, what, Status.PASS, n_elements=n_elements)


def inapplicable(check_name: str, reason: str) -> Finding:
    """The check has nothing to ask of this subject; said, and not counted."""
    return Finding(check_name, check_name, Status.NOT_RUN, reason, required=False)


def not_run(check_name: str, what: str, fact: str, next_step: str) -> Finding:
    """It should have run and could not; ``next_step`` is what would let it."""
    return Finding(check_name, what, Status.NOT_RUN, f"{fact}; {next_step}", next_step=next_step)


def drawn(check_name: str, what: str) -> Finding:
    """Not run: the original's random numbers are others in float64, so there is no value to compare with."""
    next_step = 'call ".eval()" in the factory, or set p=0'
    return not_run(check_name, what, f"{what}: the program draws random numbers", next_step)


def _storable(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
