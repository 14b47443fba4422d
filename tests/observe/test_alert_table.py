"""One table of alerts, two readings: the shipped rules file and ``farm alerts`` must say the same of any store."""

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted_farm import PlantedFarm

from tensorfarm.farm.app.alerting import read_snapshot
from tensorfarm.farm.cli import run
from tensorfarm.farm.observe.alert_rules import rules_text
from tensorfarm.farm.observe.alerts import ALERTS, EXIT_CODES, Firing, Severity, exit_code, firing
from tensorfarm.farm.observe.gauges import GAUGES
from tensorfarm.farm.observe.series import Series, Snapshot

CONFIGS = Path(__file__).parents[2] / "configs"
RULES = CONFIGS / "prometheus" / "rules.yml"
EVALUATED_AT = 2_000_000  # seconds; promtool's clock begins at zero
BY_PROMETHEUS_ALONE = {"FarmExporterStale", "FarmExporterDown", "FarmWatchdog"}


def checked(tool: str, *arguments: str) -> str:
    """What ``tool`` printed; it must have been content."""
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shipped_alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_the_shipped_rules_are_the_tables(rewrite_goldens: bool) -> None:
    if rewrite_goldens:
        RULES.write_text(rules_text())
    assert RULES.read_text() == rules_text()
    assert list(shipped_alerts()) == [alert.name for alert in ALERTS]
    assert {name: rule["labels"]["severity"] for name, rule in shipped_alerts().items()} == {
        alert.name: str(alert.severity) for alert in ALERTS
    }


def test_every_limit_stands_in_the_shipped_rules() -> None:
    limits = {
        "FarmMeasurementStale": "1.5 *",
        "FarmBaselineStale": "1209600",
        "FarmCostModelDrift": "0.4",
        "FarmBisectionStuck": "3600",
        "FarmQueueStalled": "1800",
        "FarmAlertFlood": "0.1",
    }
    shipped = shipped_alerts()
    assert [name for name, limit in limits.items() if limit not in shipped[name]["expr"]] == []
    assert shipped["FarmExporterDown"]["for"] == "5m"


def test_rules_read_only_gauges_that_are_exported() -> None:
    text = RULES.read_text()
    own = {"farm_exporter_last_refresh_timestamp_seconds", "farm_exporter_refresh_period_seconds"}
    known = {gauge.name for gauge in GAUGES} | own | {"farm_exporter_dropped_series"}
    read = {part.split("[")[0].split("{")[0] for part in text.split("last_over_time(")[1:]}
    assert read <= known


def test_no_nomination_ever_alerts() -> None:
    assert "nominated" not in RULES.read_text()


def test_the_shipped_files_pass_their_own_tools(needs: Callable[..., None]) -> None:
    needs("promtool", "amtool")
    checked("promtool", "check", "rules", str(RULES))
    checked("promtool", "check", "config", str(RULES.with_name("prometheus.yml")))
    checked("amtool", "check-config", str(CONFIGS / "alertmanager" / "alertmanager.yml"))


def test_every_alert_fires_when_it_should_and_is_quiet_otherwise(needs: Callable[..., None]) -> None:
    needs("promtool")
    checked("promtool", "test", "rules", str(RULES.with_name("rules_test.yml")))
    cases = yaml.safe_load(RULES.with_name("rules_test.yml").read_text())["tests"]
    fired = str(cases[0]["promql_expr_test"][0]["exp_samples"])
    assert [alert.name for alert in ALERTS if alert.name not in fired] == []


def quiet(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", mlp="admitted", bert="admitted")
    farm.compared("s1", "mlp/fx")
    farm.accept("s1", "mlp/fx")
    farm.regression("Nominated")


def failing(farm: PlantedFarm) -> None:
    farm.whole_sweep("s1", a="semantic_drift", b="conformance_failure", c="compile_failure", d="undecided")


def mended(farm: PlantedFarm) -> None:
    failing(farm)
    farm.whole_sweep("s2", a="admitted", b="admitted", c="admitted", d="admitted")
    farm.regression("Confirmed")
    farm.regression("Fixed")


def slow(farm: PlantedFarm) -> None:
    farm.start("s1", *(f"p{number}/fx" for number in range(6)))
    for number in range(6):
        farm.submit("s1", f"p{number}/fx")
        farm.compile("s1", f"p{number}/fx", seconds=90.0)
        farm.regression("Confirmed", f"p{number}/fx")
        farm.regression("Confirmed", f"p{number}/fx", baseline="anchor")
    farm.measure("s1", "p0/fx")
    farm.budget("s1", "compile_seconds", 60.0)
    farm.compared("s1", "p1/fx", baseline="anchor", lower=1.2, noise=1.3)
    farm.compared("s1", "p2/fx", baseline="last_accepted", lower=1.2)


def forgotten(farm: PlantedFarm) -> None:
    farm.pass_time(-20 * 86400)
    farm.start("s0", "mlp/fx", toolchain_id="old", name="once")
    farm.submit("s0", "mlp/fx", toolchain_id="old")
    farm.accept("s0", "mlp/fx", baseline="anchor")
    farm.finish("s0")
    farm.start("s1", "mlp/fx", "bert/fx", "gpt2/fx")
    farm.budget("s1", "step_seconds", math.inf, fresh_for_seconds=86400)
    farm.submit("s1", "mlp/fx")
    farm.predict("s1", "mlp/fx", 5.0)
    farm.measure("s1", "mlp/fx")
    farm.admit("s1", "mlp/fx", gated=False)
    farm.bisect("s1", "bert/fx")
    farm.end("s1", "gpt2/fx", "admitted")


SCENARIOS = (quiet, failing, mended, slow, forgotten)


def promtool_case(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as constant series, times moved to promtool's clock, and the alerts that Python finds in it."""
    since = snapshot.taken_at - EVALUATED_AT
    series = [
        {"series": f"{item.name}{labelled(item.labels)}", "values": f"{moved(item, since):.9f}x2"}
        for item in (*snapshot.series, Series("farm_exporter_dropped_series", (), snapshot.dropped))
    ]
    expected = [{"labels": f"ALERTS{labelled(as_alert(item))}", "value": 1} for item in firing(snapshot)]
    ignored = "|".join(sorted(BY_PROMETHEUS_ALONE))
    query = f'ALERTS{{alertname!~"{ignored}"}}'
    asked = {"expr": query, "eval_time": f"{EVALUATED_AT}s", "exp_samples": expected}
    return {"interval": f"{EVALUATED_AT}s", "input_series": series, "promql_expr_test": [asked]}


def moved(item: Series, since: float) -> float:
    return item.value - since if item.name.endswith("_timestamp_seconds") else item.value


def as_alert(item: Firing) -> tuple[tuple[str, str], ...]:
    """The labels that Prometheus gives a firing alert."""
    severity = str(item.alert.severity)
    return (*item.labels, ("alertname", item.alert.name), ("alertstate", "firing"), ("severity", severity))


def labelled(labels: tuple[tuple[str, str], ...]) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in labels if value) + "}"


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snapshot]:
    """What the store of each scenario says, by the scenario's name."""
    read: dict[str, Snapshot] = {}
    for scenario in SCENARIOS:
        farm = PlantedFarm(tmp_path_factory.mktemp(scenario.__name__) / "store")
        scenario(farm)
        read[scenario.__name__] = read_snapshot(farm.layout.root)
    return read


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_both_readings_say_the_same_of_a_store(
    snapshots: dict[str, Snapshot], name: str, tmp_path: Path, needs: Callable[..., None]
) -> None:
    needs("promtool")
    (tmp_path / "rules.yml").write_text(rules_text(pace=0))
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{EVALUATED_AT}s",
        "tests": [promtool_case(snapshots[name])],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    checked("promtool", "test", "rules", str(tmp_path / "test.yml"))


def test_the_scenarios_make_every_alert_fire_that_a_store_can_tell(snapshots: dict[str, Snapshot]) -> None:
    fired = {name: {item.alert.name for item in firing(snapshot)} for name, snapshot in snapshots.items()}
    assert fired["quiet"] == set()
    assert fired["mended"] == set()
    told_of_the_exporter = BY_PROMETHEUS_ALONE | {"FarmSeriesTruncated"}
    assert set().union(*fired.values()) == {alert.name for alert in ALERTS} - told_of_the_exporter


def test_dropped_series_are_told() -> None:
    (told,) = firing(Snapshot(0.0, (), dropped=7))
    assert (told.alert.name, told.value) == ("FarmSeriesTruncated", 7)
    assert exit_code([told]) == 0


def test_the_exit_code_is_the_most_severe_alerts(farm: PlantedFarm, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(farm.layout.root)]
    assert run(["alerts", *store]) == 0
    assert capsys.readouterr().out == "no alert\n"
    farm.regression("Confirmed")
    assert run(["alerts", *store]) == EXIT_CODES[Severity.TICKET] == 21
    assert "FarmRegressionOpen" in capsys.readouterr().out
    farm.whole_sweep("s1", bert="conformance_failure")
    assert run(["alerts", "--json", *store]) == EXIT_CODES[Severity.PAGE] == 20
    told = json.loads(capsys.readouterr().out)
    assert [item["alert"] for item in told] == ["FarmConformanceFailureOpen", "FarmRegressionOpen"]
    assert told[0]["labels"]["backend"] == "fx"


def test_alerts_of_no_store_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "--store", str(tmp_path / "nowhere")]) == 2
    assert "there is no store at" in capsys.readouterr().err
