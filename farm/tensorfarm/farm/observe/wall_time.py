"""Where a sweep's wall time went: each moment belongs to the jobs that ran in it, in equal parts, or to the rest.

Invariant: the shares of all stages and of the rest add up to the wall time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

REST = "rest"


@dataclass(frozen=True)
class Span:
    """A job, or the whole sweep: ``since`` and ``until`` in seconds of one clock."""

    stage: str
    since: float
    until: float


def shares(jobs: Sequence[Span], whole: Span) -> Mapping[str, float]:
    """Seconds of ``whole`` by stage; jobs count only within it."""
    edges = sorted({whole.since, whole.until, *(edge for job in jobs for edge in (job.since, job.until))})
    found = dict.fromkeys((*(job.stage for job in jobs), REST), 0.0)
    for since, until in pairwise(edges):
        if since < whole.since or until > whole.until:
            continue
        running = [job.stage for job in jobs if job.since <= since and until <= job.until]
        for stage in running or (REST,):
            found[stage] += (until - since) / max(len(running), 1)
    return found
