"""A whole gate run without the farm: judge, subject and judge again, each a fresh process.

A subject's death is a finding. A judge's is broken machinery and is raised. What ``prepare`` returned reaches
``decide`` through this process, which rewrites the case after the subject has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.step import CASE, FUNCTIONS


def certify_artifact(
    request: Mapping[str, Any], *, python_path: Sequence[str] = (), subject_seconds: float = 300.0
) -> dict[str, Any]:
    """Judge one artifact and return the verdict. ``request`` is ``judge.prepare``'s, its ``folder`` a fresh one.

    ``python_path`` is searched first, for factories outside the environment. Raises Refusal where a judge's step does.
    """
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CASE).write_text(json.dumps(dict(request)))
    prepared = _judged("prepare", folder, python_path)
    if "verdict" in prepared:
        return prepared["verdict"]
    death = _death(folder, python_path, subject_seconds)
    told = {"before": {FUNCTIONS["prepare"]: prepared}, "deaths": {FUNCTIONS["run"]: death} if death else {}}
    (folder / CASE).write_text(json.dumps({**request, **told}))
    return _judged("decide", folder, python_path)


def _started(
    name: str, folder: Path, python_path: Sequence[str], seconds: float | None
) -> subprocess.CompletedProcess[str]:
    # This process's own search path, so that an isolated interpreter's children see what it sees and no more.
    code = f"import sys; sys.path[:] = {[*python_path, *sys.path]!r}; from tensorfarm.gate import step"
    command = [
        sys.executable,
        *_isolation(),
        "-c",
        f"{code}; sys.exit(step.main({name!r}, step.Path({str(folder)!r})))",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=dict(os.environ))


def _isolation() -> list[str]:
    return [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]


def _judged(name: str, folder: Path, python_path: Sequence[str]) -> dict[str, Any]:
    ended = _started(name, folder, python_path, None)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise Refusal(
            f"the judge's step {name} ended with {ended.returncode}: {lines[-1] if lines else 'no message'}",
            next_step=f'run "python -m tensorfarm.gate.step {name} {folder}" for all of it',
        )
    return json.loads((folder / f"{name}.json").read_text())


def _death(folder: Path, python_path: Sequence[str], seconds: float) -> dict[str, str] | None:
    try:
        ended = _started("run", folder, python_path, seconds)
    except subprocess.TimeoutExpired:
        return {"kind": "timeout", "message": f"no answer within {seconds:g} seconds"}
    return death_of(ended.returncode)


def death_of(returncode: int) -> dict[str, str] | None:
    """How a process that ended with ``returncode`` (negative for a signal) died; None where it did not."""
    if returncode < 0:
        return {"kind": "signal", "message": signal.Signals(-returncode).name}
    return {"kind": "exit", "message": f"exit code {returncode}"} if returncode else None
