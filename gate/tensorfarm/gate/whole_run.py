"""A whole gate run without the farm: judge, subject's sessions and judge again, each a fresh process.

A subject's death is a finding. A judge's is broken machinery and is raised. What the steps returned reaches ``decide``
through this process, which rewrites the case after the subject has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorfarm.gate.processes import SUBJECT_SECONDS, judged, run_sessions, subject_death
from tensorfarm.gate.step import CASE, FUNCTIONS

# Told, before each step of a run, what is being done: whoever waits may want to know.
Said = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody."""


def certify_case(
    request: Mapping[str, Any],
    *,
    python_path: Sequence[str] = (),
    subject_seconds: float = SUBJECT_SECONDS,
    said: Said = silent,
) -> dict[str, Any]:
    """Judge and return the verdict. ``request`` is ``judge.prepare``'s (``case.Case.of`` reads it), its ``folder`` a
    fresh one.

    ``python_path`` is searched first, for factories outside the environment. Raises Refusal where a judge's step does.
    """
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CASE).write_text(json.dumps(dict(request)))
    said("the original and its oracle answer")
    prepared = judged("prepare", folder, python_path)
    if "verdict" in prepared:
        return prepared["verdict"]
    said("the compiled program answers")
    death = subject_death(folder, python_path, subject_seconds)
    before: dict[str, Any] = {FUNCTIONS["prepare"]: prepared}
    if prepared["sessions"]:
        said(f"it answers in {len(prepared['sessions'])} more processes")
        asked = {**request, "before": before, "python_path": list(python_path), "subject_seconds": subject_seconds}
        before[FUNCTIONS["run_sessions"]] = run_sessions(asked)
    said("the answers are compared")
    told = {"before": before, "deaths": {FUNCTIONS["run"]: death} if death else {}}
    (folder / CASE).write_text(json.dumps({**request, **told}))
    return judged("decide", folder, python_path)
