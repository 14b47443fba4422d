"""A whole gate run without the farm: judge, subject's sessions and judge again, each a fresh process.

A subject's death is a finding. A judge's is broken machinery and is raised. What the steps returned reaches ``decide``
through this process, which rewrites the case after the subject has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorfarm.contract.regular_file import written_anew
from tensorfarm.gate.limits import DEFAULT_LIMITS, Limits
from tensorfarm.gate.processes import judged, run_sessions, subject_death
from tensorfarm.gate.step import CASE, FUNCTIONS

# Told, before each step of a run, what is being done: whoever waits may want to know.
Said = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody."""


def certify_case(
    request: Mapping[str, Any],
    *,
    python_path: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    said: Said = silent,
) -> dict[str, Any]:
    """Judge and return the verdict. ``request`` is ``judge.prepare``'s (``case.Case.of`` reads it), its ``folder`` a
    fresh one.

    ``python_path`` is searched first, for factories outside the environment; ``limits`` hold for each process by
    itself. Raises Refusal where a judge's step does.
    """
    folder = Path(request["folder"])
    original = str(request.get("source", ""))
    written_anew(folder / CASE, json.dumps(dict(request)))
    said("the original and its oracle answer")
    prepared = judged("prepare", folder, python_path, limits, original)
    if "verdict" in prepared:
        return prepared["verdict"]
    said("the compiled program answers")
    death = subject_death(folder, python_path, limits)
    before: dict[str, Any] = {FUNCTIONS["prepare"]: prepared}
    if prepared["sessions"]:
        said(f"it answers in {len(prepared['sessions'])} more processes")
        held = {"subject_seconds": limits.seconds, "memory_bytes": limits.memory_bytes}
        asked = {**request, "before": before, "python_path": list(python_path), **held}
        before[FUNCTIONS["run_sessions"]] = run_sessions(asked)
    said("the answers are compared")
    told = {"before": before, "deaths": {FUNCTIONS["run"]: death} if death else {}}
    written_anew(folder / CASE, json.dumps({**request, **told}))
    return judged("decide", folder, python_path, limits, original)
