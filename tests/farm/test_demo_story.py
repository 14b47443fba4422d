"""The demo end to end, with real sweeps and a real Prometheus: a wrong pass, a slow pass, an alert and its end."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABSENT = [name for name in ("prometheus", "prometheus-alertmanager") if shutil.which(name) is None]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(ABSENT), reason=f"{' and '.join(ABSENT)} absent")
def test_a_pass_slowed_down_on_purpose_is_told_to_the_webhook_and_resolves_once_mended(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo" / "play.py"), str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("webhook: ")]
    assert told == ["firing", "resolved"]
    assert "pass one-wrong-site, site 17 at" in done.stdout
