"""What a probe can answer. Three values: a probe that fails in another way says nothing about this fault.

Invariant: neither a build that broke nor a different failure is ever counted as ``bad``.
"""

from __future__ import annotations

from enum import StrEnum


class Answer(StrEnum):
    """``good``: the fault is not seen. ``bad``: it is. ``skip``: this probe cannot tell."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
