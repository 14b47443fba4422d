"""The processes of a gate run: each step in a fresh interpreter that sees what this one sees, and how one died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.devices import present
from tensorfarm.gate.step import CASE
from tensorfarm.gate.subject.scratch import SCRATCH
from tensorfarm.gate.trial import MAIN

SUBJECT_SECONDS = 300.0


def judged(name: str, folder: Path, python_path: Sequence[str] = ()) -> dict[str, Any]:
    """Run a judge's step and return what it left. A judge's death is broken machinery and is raised as a Refusal."""
    ended = started(name, folder, python_path, None, {})
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise Refusal(
            lines[-1] if lines and ended.returncode > 0 else f"the judge's step {name} ended with {ended.returncode}",
            next_step=f'for all of it run "python -m tensorfarm.gate.step {name} {folder}"',
        )
    return json.loads((folder / f"{name}.json").read_text())


def subject_death(
    folder: Path,
    python_path: Sequence[str] = (),
    seconds: float = SUBJECT_SECONDS,
    environment: Mapping[str, str] | None = None,
    session: str = "",
) -> dict[str, str] | None:
    """Run one session of the subject; None where it lived, else how it died."""
    try:
        ended = started("run", folder, python_path, seconds, environment or {}, session)
    except subprocess.TimeoutExpired:
        return {"kind": "timeout", "message": f"no answer within {seconds:g} seconds"}
    finally:
        # One that died has left it.
        shutil.rmtree(folder / (session or MAIN.name) / SCRATCH, ignore_errors=True)
    return death_of(ended.returncode)


def run_sessions(request: Mapping[str, Any]) -> dict[str, Any]:
    """Step of the farm: every session that ``prepare`` asked for beside the main one, in turn, each a process.

    Returns which devices were ``absent``, and why, and the ``deaths`` of subjects, by session.
    """
    prepared = dict(request["before"])["tensorfarm.gate.judge:prepare"]
    folder = Path(request["folder"])
    absent, deaths = dict[str, str](), dict[str, Any]()
    seconds = float(request.get("subject_seconds", SUBJECT_SECONDS))
    (folder / CASE).write_text(json.dumps({key: value for key, value in request.items() if key != "before"}))
    for session in prepared.get("sessions", ()):
        why = present(session["device"])
        if why:
            absent[session["name"]] = why
            continue
        threads = {"OMP_NUM_THREADS": str(session["threads"])}
        environment = {**threads, **session["environment"]}
        death = subject_death(folder, request.get("python_path", ()), seconds, environment, session["name"])
        if death:
            deaths[session["name"]] = death
    return {"absent": absent, "deaths": deaths}


def started(
    name: str,
    folder: Path,
    python_path: Sequence[str],
    seconds: float | None,
    environment: Mapping[str, str],
    session: str = "",
) -> subprocess.CompletedProcess[str]:
    # This process's own search path, so that an isolated interpreter's children see what it sees and no more.
    code = f"import sys; sys.path[:] = {[*python_path, *sys.path]!r}; from tensorfarm.gate import step"
    command = [
        sys.executable,
        *_isolation(),
        "-c",
        f"{code}; sys.exit(step.main({name!r}, step.Path({str(folder)!r}), {session!r}))",
    ]
    full = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=full)


def death_of(returncode: int) -> dict[str, str] | None:
    """How a process that ended with ``returncode`` (negative for a signal) died; None where it did not."""
    if returncode < 0:
        return {"kind": "signal", "message": signal.Signals(-returncode).name}
    return {"kind": "exit", "message": f"exit code {returncode}"} if returncode else None


def _isolation() -> list[str]:
    return [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
