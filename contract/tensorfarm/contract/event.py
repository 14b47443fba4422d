"""What every event has. Kinds of events stand in files by what they are about; ``events`` gathers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Event:
    """Base of all events. ``subject`` is what the event is about: a cell, a program, a target or the run itself.

    ``sweep_id`` names the run that recorded it: a sweep (``farm bisect`` is one of one cell), or ``calibrate-…`` and
    ``baseline-…``, the runs of those commands. Events of one kind about one subject are one happening, unless the
    fields ``told_apart_by`` differ.
    """

    version: ClassVar[int] = 1
    told_apart_by: ClassVar[tuple[str, ...]] = ()
    sweep_id: str
    subject: str
