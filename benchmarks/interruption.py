"""How long a driver takes to stop: from Ctrl-C to the last commit, and until it is gone.

Goals: at most 0.5 s and 5 s, while a compile hangs. ``--quick`` interrupts once instead of five times.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Goal, finish

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "tests" / "farm" / "project"
HANGING = """
sweep: hanging
contract: float32.yaml
python_path: [.]
pipelines: ["fx:bad_passes:Hangs"]
programs: [{module: "small_models:mlp"}]
"""


def events(store: Path) -> dict[str, float]:
    """Time stamp, in epoch seconds, of the newest event of each type in the driver's journal."""
    place = store / "journal" / "w0.sqlite"
    if not place.exists():
        return {}
    connection = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    try:
        return {kind: ts / 1e6 for kind, ts in connection.execute("select type, max(ts_us) from events group by type")}
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()


def interrupted(folder: Path) -> tuple[float, float]:
    """Seconds from the signal to the commit of its event, and to the driver's end."""
    store = folder / "store"
    command = [sys.executable, "-m", "tensorfarm.farm", "sweep", "hanging.yaml", "--store", str(store)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while "CandidateSubmitted" not in events(store):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    gone = time.time() - sent
    return events(store)["SweepInterrupted"] - sent, gone


def main() -> None:
    quick = "--quick" in sys.argv
    commits, ends = [], []
    for _ in range(1 if quick else 5):
        with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as name:
            folder = Path(name)
            shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
            (folder / "hanging.yaml").write_text(HANGING)
            os.environ["TENSORFARM_BUILD_ROOT"] = str(folder / "build")
            commit, gone = interrupted(folder)
            commits.append(commit)
            ends.append(gone)
    goals = [
        Goal("from Ctrl-C to the last commit, worst, seconds", "<= 0.5", max(commits), max(commits) <= 0.5),
        Goal("from Ctrl-C to the driver's end, worst, seconds", "<= 5", max(ends), max(ends) <= 5),
    ]
    finish("interruption-quick" if quick else "interruption", goals, {"commits": commits, "ends": ends})


if __name__ == "__main__":
    main()
