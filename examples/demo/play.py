"""The whole story on one machine: a planted fault is refused and bisected, a planted slow-down is confirmed and told.

    python examples/demo/play.py [FOLDER]

Everything lies in FOLDER (./.tensorfarm-demo), which is emptied first. Each command is printed as it can be typed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from alert_stack import BINARIES, AlertStack

ROOT = Path(__file__).resolve().parents[2]
SWEEP = """\
sweep: demo
contract: {configs}/contracts/float32.yaml
ir_contract: {configs}/ir_contract.yaml
python_path: [.]
mode: training
pipelines: ["fx:dce,cse,slow_pass:ComputeAgain"]
programs:
  - module: tensorfarm.farm.zoo.vision:convnet
  - module: tensorfarm.farm.zoo.language:gpt2
    pipelines: {gpt2}
"""
GOOD, WRONG = '"fx:dce,cse"', '"fx:dce,cse,planted:OneWrongSite{nth=17}"'
_ALERT_SECONDS = 30.0


class Story:
    """Runs commands in one folder and shows them. ``began`` is when, for the last line."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.began = folder, time.time()
        self.environment = {
            **os.environ,
            "COLUMNS": "120",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def tell(self, words: str) -> None:
        print(f"\n=== {words}", flush=True)

    def run(self, command: str, expected: int) -> None:
        """Run and show one command. Ends the story where its exit code is not the expected one."""
        print(f"$ {command}", flush=True)
        code = subprocess.run(command, shell=True, cwd=self.folder, env=self.environment, check=False).returncode
        print(f"(exit code {code})", flush=True)
        if code != expected:
            sys.exit(f"demo: {command!r} ended with {code}, not {expected}: the story cannot go on")

    def write_sweep(self, *pipelines_of_gpt2: str) -> None:
        text = SWEEP.format(configs=ROOT / "configs", gpt2=f"[{', '.join(pipelines_of_gpt2)}]")
        (self.folder / "demo.yaml").write_text(text)

    def edit_pass(self, times: int) -> None:
        """Make the user's pass slow, or right again, as an editor would."""
        source = (ROOT / "examples" / "slow_pass.py").read_text()
        (self.folder / "slow_pass.py").write_text(source.replace("TIMES = 0", f"TIMES = {times}"))


def main(folder: Path) -> None:
    missing = [name for name in BINARIES if shutil.which(name) is None]
    if missing:
        sys.exit(f'demo: {" and ".join(missing)} absent; run "apt-get install {" ".join(missing)}"')
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "planted.py", folder)
    story = Story(folder)
    store = folder / ".tensorfarm"

    story.tell("A sweep. One of its passes is wrong at one of 63 sites: refused, and bisected by itself.")
    story.edit_pass(times=0)
    story.write_sweep(GOOD, WRONG)
    story.run("farm sweep demo.yaml", expected=13)

    story.tell("The reproducer needs torch alone: it fails, and passes with the culprit off.")
    script = next((store / "reproducers").glob("*/reproducer.py")).relative_to(folder)
    story.run(f"python {script}", expected=1)
    story.run(f"python {script} --off", expected=0)

    story.tell("What can this machine do at most, and what will things cost on it?")
    story.run("farm calibrate", expected=0)

    with AlertStack(folder / "alerting", store) as stack:
        story.tell("Somebody edits a pass; now it computes every product three times. Prometheus is watching.")
        story.edit_pass(times=2)
        story.write_sweep(GOOD)
        since = time.time()
        story.run("farm sweep demo.yaml", expected=14)
        notice = stack.await_notice("FarmRegressionOpen", "firing", since=since, seconds=_ALERT_SECONDS)
        print(f"webhook: {notice.status} {dict(notice.labels)}", flush=True)

        story.tell("The reports, as tables and as pages.")
        story.run("farm report regressions --html regressions.html", expected=0)
        story.run("farm report cost --html cost.html", expected=0)
        story.run("farm report budget --html budget.html", expected=0)
        story.run("farm report staleness --html staleness.html", expected=0)

        story.tell("The edit is taken back: the regression is fixed, and the alert resolves.")
        story.edit_pass(times=0)
        since = time.time()
        story.run("farm sweep demo.yaml", expected=0)
        notice = stack.await_notice("FarmRegressionOpen", "resolved", since=since, seconds=_ALERT_SECONDS)
        print(f"webhook: {notice.status} {dict(notice.labels)}", flush=True)
    print(f"\nThe whole story took {time.time() - story.began:.0f} s; it lies in {folder}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".tensorfarm-demo").absolute())
