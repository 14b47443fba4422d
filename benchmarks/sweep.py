"""Wall time of the quickstart sweep, cold and answered from the cache, and where the time went.

Goals: cold at most 240 s after set-up on two idle cores; a second run at most 30 s. ``--quick`` sweeps two programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Goal, finish

ROOT = Path(__file__).resolve().parent.parent
QUICK_PROGRAMS = ("bert", "convnet")


def swept(config: Path, folder: Path) -> tuple[float, dict[str, object]]:
    """Run one sweep in a fresh process; its wall time in seconds and its report."""
    environment = os.environ | {"TENSORFARM_BUILD_ROOT": str(folder / "build")}
    command = [
        sys.executable,
        "-m",
        "tensorfarm.farm",
        "sweep",
        str(config),
        "--json",
        "--store",
        str(folder / "store"),
    ]
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return time.monotonic() - started, json.loads(done.stdout)


def quick_config(folder: Path) -> Path:
    """The quickstart with two of its programs, beside the files it names."""
    lines = (ROOT / "configs" / "quickstart.yaml").read_text().splitlines()
    kept = [line for line in lines if "module:" not in line or line.rpartition(":")[2] in QUICK_PROGRAMS]
    text = "\n".join(line for line in kept if "name:" not in line)
    for name in ("contracts/float32.yaml", "ir_contract.yaml"):
        text = text.replace(f": {name}", f": {ROOT / 'configs' / name}")
    config = folder / "quick.yaml"
    config.write_text(text + "\n")
    return config


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as name:
        folder = Path(name)
        config = quick_config(folder) if quick else ROOT / "configs" / "quickstart.yaml"
        cold, first = swept(config, folder)
        warm, second = swept(config, folder)
    outcomes = [cell["outcome"] for cell in first["cells"]]
    cached = [cell["cached"] for cell in second["cells"]]
    goals = [
        Goal("cold sweep, seconds", "<= 240", cold, cold <= 240),
        Goal("second sweep from the cache, seconds", "<= 30", warm, warm <= 30),
        Goal(
            "cells admitted",
            f"{len(outcomes)} of {len(outcomes)}",
            outcomes.count("admitted"),
            set(outcomes) == {"admitted"},
        ),
        Goal("cells answered from the cache", f"all {len(cached)}", sum(cached), all(cached)),
    ]
    details = {"cold_seconds": first["seconds"], "cells": first["cells"], "quick": quick}
    finish("sweep-quick" if quick else "sweep", goals, details)


if __name__ == "__main__":
    main()
