"""The farm's side of a bisection: how it starts, what its culprit is called, where its script lies, how it ends.

The search itself is pure and lives in the sweep's state; here is what it cannot know: files, manifests and clocks.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorfarm.bisect.result import Status
from tensorfarm.contract import events as e
from tensorfarm.contract.digest import sha256_json
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.bisection import Found
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

_ASKED = ("subsystem", "told", "occurrence")


@dataclass(frozen=True)
class Culprit:
    """One switchable decision of a compilation. ``place`` counts within its pass, -1 where the backend does not.

    ``asked`` is how Inductor asked for it: subsystem, told and occurrence; nothing for a pass of our own.
    """

    ordinal: int
    pass_name: str
    site: str
    place: int
    nodes: tuple[str, ...]
    asked: Mapping[str, str]

    def __str__(self) -> str:
        where = f", site {self.place}" if self.place >= 0 else f", decision {self.ordinal}"
        return f"pass {self.pass_name}{where}" + (f" at {', '.join(self.nodes)}" if self.nodes else "")


@dataclass(frozen=True)
class BisectionDesk:
    """What a sweep's desk asks about its bisections."""

    sweep_id: str
    layout: StoreLayout

    def started(self, command: c.StartBisection) -> e.BisectionStarted:
        cell = command.cell
        return e.BisectionStarted(
            self.sweep_id,
            cell.id,
            bisection_id=sha256_json([self.sweep_id, cell.id, command.candidate_id])[:16],
            candidate_id=command.candidate_id,
            backend=cell.backend,
            n_sites=command.sites.count,
            width=command.width,
            failure=command.failure,
            landmarks=command.sites.landmarks,
            idle=command.sites.idle,
        )

    def culprit(self, candidate_id: str, ordinal: int) -> Culprit:
        """What the manifest calls the decision with this number."""
        with Reader(self.layout) as reader:
            rows = reader.named("site_of_candidate", candidate_id=candidate_id, ordinal=str(ordinal)).to_pylist()
        row: Mapping[str, Any] = rows[0] if rows else {"name": "", "site": ""}
        nodes = tuple(name for name in (row.get("nodes") or "").split(",") if name)
        asked = {name: row[name] for name in _ASKED} if row.get("told") else {}
        place = row.get("place")
        return Culprit(ordinal, row["name"], row["site"], -1 if place is None else int(place), nodes, asked)

    def script_request(self, command: c.RunReproduce) -> dict[str, Any]:
        """What the worker that writes the script is told besides program and pipeline."""
        found = command.found
        culprit = self.culprit(command.candidate_id, _named(found))
        return {
            "ordinal": culprit.ordinal,
            "pass_name": culprit.pass_name,
            "site": culprit.site,
            "nodes": list(culprit.nodes),
            "asked": dict(culprit.asked),
            "finding": json.loads(found.failure)["finding"],
            "folder": str(self.layout.root / "reproducers" / command.candidate_id[:16]),
        }

    def reproduced(self, command: c.RunReproduce, written: Mapping[str, Any]) -> e.BisectionFinished:
        """``written`` is what the worker returned; empty where it could not write the script."""
        return self._finished(command.cell.id, command.candidate_id, command.found, written)

    def finished(self, command: c.FinishBisection) -> e.BisectionFinished:
        return self._finished(command.cell.id, command.candidate_id, command.found, {}, command.trouble)

    def _finished(
        self, subject: str, candidate_id: str, found: Found, written: Mapping[str, Any], trouble: str = ""
    ) -> e.BisectionFinished:
        result = found.result
        culprit = None if result.culprit is None else self.culprit(candidate_id, result.culprit)
        place = written.get("reproducer", "")
        script = str(Path(place).relative_to(self.layout.root)) if place else ""
        disagrees = bool(script) and not written.get("reproduced", False)
        shutil.rmtree(self.layout.work / f"bisect-{found.bisection_id}", ignore_errors=True)
        return e.BisectionFinished(
            self.sweep_id,
            subject,
            bisection_id=found.bisection_id,
            candidate_id=candidate_id,
            # A script that was run and does not show it is evidence against the search.
            status=Status.UNDECIDED if disagrees else result.status,
            pass_name=culprit.pass_name if culprit else "",
            site=culprit.site if culprit else "",
            site_index=culprit.ordinal if culprit else -1,
            nodes=culprit.nodes if culprit else (),
            rounds=result.rounds,
            probes=result.probes,
            seconds=self._seconds(found.bisection_id),
            reproducer=script,
            reproduced=bool(written.get("reproduced", False)),
            message=_told(found, culprit, {**written, "reproducer": script}, trouble),
        )

    def _seconds(self, bisection_id: str) -> float:
        with Reader(self.layout) as reader:
            rows = reader.named("bisection_started", bisection_id=bisection_id).to_pylist()
        return time.time() - rows[0]["ts"].timestamp() if rows else 0.0


def _named(found: Found) -> int:
    if found.result.culprit is None:
        raise LookupError(f"bisection {found.bisection_id} has no culprit to write a script about")
    return found.result.culprit


def _told(found: Found, culprit: Culprit | None, written: Mapping[str, Any], trouble: str) -> str:
    result = found.result
    if culprit is None:
        return f"given up after {result.probes} probes: {trouble}" if trouble else result.sentence
    script, doubt = written.get("reproducer"), written.get("message") or trouble
    rest = "" if result.status is Status.CONFIRMED else f"; {result.sentence}"
    if script and not written.get("reproduced"):
        return f"{culprit} by the search, but its script {script} does not show it: {doubt}{rest}"
    shown = f"reproducer {script}" if script else f"no reproducer ({doubt})" if doubt else "no reproducer"
    return f"{culprit}; {shown}{rest}"
