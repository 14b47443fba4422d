"""Bad input as a value that a person can act on: the fact, the limit, the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LINE_LIMIT = 300
_SHOWN, _BITS_SHOWN = 80, 128


class Refusal(Exception):
    """Something the caller asked for cannot be done, and why. Never a traceback for the user.

    ``fact`` says what was seen, ``limit`` what would be acceptable, ``next_step`` what to do now.
    ``exit_code`` is the process's: 2 (usage) unless an outcome's code applies.
    """

    def __init__(self, fact: str, *, limit: str = "", next_step: str = "", exit_code: int = 2) -> None:
        self.fact, self.limit, self.next_step, self.exit_code = fact, limit, next_step, exit_code
        super().__init__(str(self))

    def __str__(self) -> str:
        limit = f" ({self.limit})" if self.limit else ""
        return f"{self.fact}{limit}" + (f"; {self.next_step}" if self.next_step else "")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.fact, self.limit, self.next_step, self.exit_code)


def shown(value: Any) -> str:
    """What was given, short enough for a line; of a whole number that is too long to be printed, its bits."""
    if isinstance(value, int) and value.bit_length() > _BITS_SHOWN:
        return f"a number of {value.bit_length()} bits"
    return f"{type(value).__name__} {value!r}"[:_SHOWN]


def refuse_unknown(what: str, value: Any, known: Sequence[str]) -> None:
    """Raise a Refusal for a word that is none of ``known``."""
    if value not in known:
        raise Refusal(f"{what} {value!r} is unknown", limit=", ".join(known), next_step=f"choose one as {what}")


def one_line(error: BaseException) -> str:
    """Class and first line of an exception's text, and the next where a colon says that it comes there: what a refusal
    says of somebody else's code that raised. A refusal is in one line as it is."""
    if isinstance(error, Refusal):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    told = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {told[:_LINE_LIMIT]}"


def _rebuilt(kind: type[Refusal], fact: str, limit: str, next_step: str, exit_code: int) -> Refusal:
    """Unpickle one of any subclass, whatever its constructor asks for: refusals travel between processes."""
    error = kind.__new__(kind)
    Refusal.__init__(error, fact, limit=limit, next_step=next_step, exit_code=exit_code)
    return error
