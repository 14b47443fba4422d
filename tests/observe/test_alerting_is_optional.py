"""A machine without Prometheus is a healthy one: the doctor says what is absent and what would install it."""

from pathlib import Path

import pytest

from tensorfarm.farm.app.examination import examine


def test_the_doctor_says_that_prometheus_is_absent_and_nothing_is_wrong_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = [item for item in examine(tmp_path / "store") if item.what == "alerting"]
    assert finding.healthy
    assert finding.seen == "prometheus, promtool, prometheus-alertmanager, amtool absent"
    assert "apt-get install" in finding.advice
