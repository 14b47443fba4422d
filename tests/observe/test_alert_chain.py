"""From an event in the journal to a webhook, through the exporter, Prometheus and Alertmanager of Debian."""

import time
from collections.abc import Callable
from pathlib import Path

from alert_stack import AlertStack
from planted_farm import PlantedFarm, workload

SECONDS = 60.0  # at intervals of one second: only a machine under load takes more than a fifth of it
SETTLED_SECONDS = 3.0  # several rounds of refresh, scrape and evaluation


def regression_notices(stack: AlertStack, status: str, since: float = 0.0) -> list[str]:
    return [
        item.labels["workload"]
        for item in stack.receiver.notices
        if item.matches("FarmRegressionOpen", status, {}) and item.at >= since
    ]


def test_a_confirmed_regression_is_told_and_resolved_and_a_dead_exporter_resolves_nothing(
    farm: PlantedFarm, started_stack: Callable[[Path], AlertStack]
) -> None:
    farm.regression("Nominated", "mlp/fx")
    stack = started_stack(farm.layout.root)
    stack.await_notice("FarmWatchdog", "firing", since=0.0, seconds=SECONDS)
    time.sleep(SETTLED_SECONDS)
    assert regression_notices(stack, "firing") == []

    farm.regression("Confirmed", "mlp/fx")
    told = stack.await_notice("FarmRegressionOpen", "firing", since=0.0, seconds=SECONDS)
    assert told.labels["workload"] == workload("mlp/fx")
    assert (told.labels["severity"], told.labels["baseline"]) == ("ticket", "last_accepted")

    farm.regression("Fixed", "mlp/fx")
    stack.await_notice("FarmRegressionOpen", "resolved", since=told.at, seconds=SECONDS)

    farm.regression("Confirmed", "bert/fx")
    stack.await_notice("FarmRegressionOpen", "firing", since=0.0, seconds=SECONDS, workload=workload("bert/fx"))
    killed = time.time()
    stack.kill_exporter()
    stack.await_notice("FarmExporterDown", "firing", since=killed, seconds=SECONDS)
    time.sleep(SETTLED_SECONDS)
    assert regression_notices(stack, "resolved", since=killed).count(workload("bert/fx")) == 0
    assert {"FarmRegressionOpen", "FarmExporterDown"} <= stack.firing()

    stack.start_exporter()
    farm.regression("Fixed", "bert/fx")
    stack.await_notice("FarmRegressionOpen", "resolved", since=killed, seconds=SECONDS, workload=workload("bert/fx"))
    stack.await_notice("FarmExporterDown", "resolved", since=killed, seconds=SECONDS)
