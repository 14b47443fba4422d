"""One step of a gate run as a process of its own: ``python -m tensorfarm.gate.step NAME FOLDER [SESSION]``.

The folder holds ``case.json``, the request that every step is given; the step leaves its result in ``NAME.json``, or
what it refuses.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.child import leave_refusal

CASE = "case.json"
FUNCTIONS = {
    "prepare": "tensorfarm.gate.judge:prepare",
    "run": "tensorfarm.gate.subject.run:run",
    "run_sessions": "tensorfarm.gate.processes:run_sessions",
    "decide": "tensorfarm.gate.judge:decide",
}


def main(name: str, folder: Path, session: str = "") -> int:
    """Exit code 0, or a refusal's. A step's module is imported here, so that a subject never loads the judge."""
    module, _, function = FUNCTIONS[name].partition(":")
    request = json.loads((folder / CASE).read_text())
    if session:
        request["session"] = session
    try:
        result: dict[str, Any] = getattr(importlib.import_module(module), function)(request)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return leave_refusal(folder / f"{name}.json", refusal)
    (folder / f"{name}.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4]))
