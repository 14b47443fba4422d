"""The processes of a gate run: each step in a fresh interpreter that sees what this one sees, and how one died."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorfarm.contract.exchange import REPORT
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.regular_file import removed, written_anew
from tensorfarm.gate.child import Ended, interpreter, refusal_in, run_child
from tensorfarm.gate.devices import present
from tensorfarm.gate.limits import SECONDS, UNLIMITED, Limits
from tensorfarm.gate.step import CASE, FUNCTIONS
from tensorfarm.gate.subject.scratch import SCRATCH
from tensorfarm.gate.trial import MAIN


def judged(
    name: str, folder: Path, python_path: Sequence[str] = (), limits: Limits = UNLIMITED, original: str = ""
) -> dict[str, Any]:
    """Run a judge's step and return what it left. What it refuses is raised again; so is its death, which is the
    doing of the ``original``, as it is called, where it is not broken machinery: nothing else of the user's runs
    there."""
    place = folder / f"{name}.json"
    # Whatever lies there is not this step's: a subject may have laid it.
    removed(place)
    ended = started(name, folder, python_path, limits, {})
    refusal = refusal_in(place)
    if refusal is not None:
        raise refusal
    if ended.returncode is None:
        raise Refusal(
            f"the original {original} and its oracle gave {ended.death}".replace("  ", " "),
            limit=f"in the judge's step {name}",
            next_step="call it on its own with its inputs; where it is slow and does end, give more seconds, or a "
            "lower level",
        )
    if ended.returncode or not place.is_file():
        within = f", within {limits}" if str(limits) else ""
        raise Refusal(
            f"the judge's step {name} ended without an answer: {ended.death}",
            limit=f"the code of the original {original} runs in that process{within}".replace("  ", " "),
            next_step="call the original on its own with its inputs and mend it; report this where that works",
        )
    return json.loads(place.read_text())


def subject_death(
    folder: Path,
    python_path: Sequence[str] = (),
    limits: Limits = UNLIMITED,
    environment: Mapping[str, str] | None = None,
    session: str = "",
) -> dict[str, str] | None:
    """Run one session of the subject; None where it lived, else how it died."""
    try:
        ended = started("run", folder, python_path, limits, environment or {}, session)
    finally:
        # One that died has left it.
        shutil.rmtree(folder / (session or MAIN.name) / SCRATCH, ignore_errors=True)
    if ended.returncode is None:
        return {"kind": "timeout", "message": ended.death}
    if not ended.returncode and not os.path.isfile(folder / (session or MAIN.name) / REPORT):
        return {"kind": "exit", "message": f"{ended.death}, before it had answered"}
    return death_of(ended.returncode, ended.said)


def run_sessions(request: Mapping[str, Any]) -> dict[str, Any]:
    """Step of the farm: every session that ``prepare`` asked for beside the main one, in turn, each a process.

    Returns which devices were ``absent``, and why, and the ``deaths`` of subjects, by session.
    """
    prepared = dict(request["before"])[FUNCTIONS["prepare"]]
    folder = Path(request["folder"])
    absent, deaths = dict[str, str](), dict[str, Any]()
    limits = Limits(request.get("subject_seconds", SECONDS), request.get("memory_bytes"))
    written_anew(folder / CASE, json.dumps({key: value for key, value in request.items() if key != "before"}))
    for session in prepared.get("sessions", ()):
        why = present(session["device"])
        if why:
            absent[session["name"]] = why
            continue
        threads = {"OMP_NUM_THREADS": str(session["threads"])}
        environment = {**threads, **session["environment"]}
        death = subject_death(folder, request.get("python_path", ()), limits, environment, session["name"])
        if death:
            deaths[session["name"]] = death
    return {"absent": absent, "deaths": deaths}


def started(
    name: str,
    folder: Path,
    python_path: Sequence[str],
    limits: Limits,
    environment: Mapping[str, str],
    session: str = "",
) -> Ended:
    call = f"step.main({name!r}, step.Path({str(folder)!r}), {session!r})"
    return run_child(interpreter("step", call, python_path), limits, environment)


def death_of(returncode: int, said: str = "") -> dict[str, str] | None:
    """How a process that ended with ``returncode`` (negative for a signal) died; None where it did not. ``said`` is
    what it printed last."""
    if not returncode:
        return None
    return {"kind": "signal" if returncode < 0 else "exit", "message": Ended(returncode, said).death}
