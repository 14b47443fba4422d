"""A supervisor without Ray: runs jobs, one warm parent a role, started when first needed and again when it died.

Several jobs may run at once, from several threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from tensorfarm.farm.engine.config import RoleSpec
from tensorfarm.farm.engine.job import Job, JobResult, Step, StepOutcome, run_steps
from tensorfarm.farm.engine.warm_link import WarmLink, WarmParentDied


class Crew:
    def __init__(self, roles: Mapping[str, RoleSpec], node_id: str, start_seconds: float = 120.0) -> None:
        self._roles = roles
        self._node_id = node_id
        self._start_seconds = start_seconds
        self._locks = {role: threading.Lock() for role in roles}
        self._links: dict[str, WarmLink] = {}

    def run(self, job: Job) -> JobResult:
        """Run ``job``. A warm parent that died under it makes it lost, never failed."""
        started = time.monotonic()
        try:
            outcomes, lost = run_steps(job, self._run_step), ""
        except WarmParentDied as death:
            outcomes, lost = (), str(death)
        return JobResult(job.job_id, outcomes, self._node_id, lost, time.monotonic() - started)

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    def _run_step(self, step: Step) -> StepOutcome:
        return self._link(step.role).run(step)

    def _link(self, role: str) -> WarmLink:
        with self._locks[role]:
            link = self._links.get(role)
            if link is None or not link.alive:
                link = self._links[role] = WarmLink(role, self._roles[role], self._start_seconds)
            return link
