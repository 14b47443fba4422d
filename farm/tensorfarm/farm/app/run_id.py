"""The id of a run: what it is called, and when it began in UTC, so that ids of one name sort by time."""

from __future__ import annotations

from datetime import UTC, datetime


def new_run_id(name: str) -> str:
    """``name-20260501T120000000``: to the millisecond."""
    return f"{name}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%f')[:-3]}"
