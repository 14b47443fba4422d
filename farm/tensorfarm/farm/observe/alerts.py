"""Every alert, once: the rules file is written from this table, and ``farm alerts`` evaluates it without Prometheus.

Invariant: an alert is about something open. Only a confirmed regression alerts; a nomination never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tensorfarm.cost_model.drift import LIMIT_LOG_ERROR
from tensorfarm.farm.observe.conditions import (
    Above,
    AboveOther,
    Both,
    Condition,
    Either,
    OfPrometheus,
    Older,
    OlderThanPeriod,
    Open,
    Read,
    Share,
    Truncated,
    Zero,
)
from tensorfarm.farm.observe.series import Snapshot

_CELL = ("workload", "backend", "device_class")
_METRIC = ("metric", "device_class")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Severity(StrEnum):
    """Who is told: somebody now, somebody in the morning, whoever looks; NONE shows that the alerting works."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"
    NONE = "none"


# Above the nine outcomes (10 to 17), so that a script can tell an alert from a sweep's result.
EXIT_CODES = {Severity.PAGE: 20, Severity.TICKET: 21}


@dataclass(frozen=True)
class Alert:
    """``hold_seconds`` is how long the condition must hold before Prometheus tells anyone."""

    name: str
    severity: Severity
    condition: Condition
    says: str
    next_step: str
    hold_seconds: int = 0


@dataclass(frozen=True)
class Firing:
    """An alert whose condition holds now, for the thing that ``labels`` name."""

    alert: Alert
    labels: tuple[tuple[str, str], ...]
    value: float


def _failure(name: str, severity: Severity, failure_class: str, says: str) -> Alert:
    read = Read("farm_open_failures", {"failure_class": failure_class})
    return Alert(name, severity, Open(read, (*_CELL, "failure_class")), says, "farm report sweep")


ALERTS = (
    Alert(
        "FarmRegressionOpen",
        Severity.TICKET,
        Open(Read("farm_open_regressions"), (*_CELL, "metric", "baseline")),
        "A paired measurement confirmed that the workload is slower than its baseline.",
        "farm report regressions",
    ),
    _failure("FarmSemanticDriftOpen", Severity.PAGE, "semantic_drift", "What was built is not the approved program."),
    _failure("FarmConformanceFailureOpen", Severity.PAGE, "conformance_failure", "The gate refused the artifact."),
    _failure("FarmCompileFailureOpen", Severity.TICKET, "compile_failure", "The backend could not build it."),
    Alert(
        "FarmUngatedArtifact",
        Severity.PAGE,
        Above(Read("farm_cache_entries", {"gate": "missing"}), 0),
        "The cache serves an artifact that no gate has passed.",
        "farm query \"select sha256, uri from artifacts where state = 'admitted' and gate_run_id not in (select"
        " payload ->> 'gate_run_id' from events where type = 'GateDecided' and payload ->> 'status' = 'pass')\"",
    ),
    Alert(
        "FarmAnchorCreep",
        Severity.TICKET,
        AboveOther(
            Read("farm_verdict_ratio_lower", {"baseline": "anchor"}), Read("farm_creep_threshold_ratio"), _METRIC
        ),
        "Many accepted steps have made the workload slower than its pinned anchor.",
        "farm report regressions",
        hold_seconds=_HOUR,
    ),
    Alert(
        "FarmNoiseFloorHigh",
        Severity.TICKET,
        AboveOther(Read("farm_aa_ratio_halfwidth"), Read("farm_metric_halfwidth_limit"), _METRIC),
        "Paired measurements are too noisy to see a regression of the size that matters.",
        "look for other load on the bench nodes",
        hold_seconds=10 * _MINUTE,
    ),
    Alert(
        "FarmMeasurementStale",
        Severity.TICKET,
        OlderThanPeriod(Read("farm_last_measurement_timestamp_seconds"), 1.5, Read("farm_measurement_period_seconds")),
        "Nothing of this sweep was measured for longer than its measurements are fresh.",
        "farm report staleness",
        hold_seconds=10 * _MINUTE,
    ),
    Alert(
        "FarmBaselineStale",
        Severity.TICKET,
        Either(Older(Read("farm_baseline_timestamp_seconds"), 14 * _DAY), Zero(Read("farm_baseline_toolchain_match"))),
        "The baseline is old, or was built with another toolchain.",
        "farm report staleness",
        hold_seconds=_HOUR,
    ),
    Alert(
        "FarmCoverageDropped",
        Severity.TICKET,
        AboveOther(Read("farm_expected_cells"), Read("farm_measured_cells"), ("sweep", "device_class")),
        "Cells that did not fail have no measurement.",
        "farm report sweep",
        hold_seconds=_HOUR,
    ),
    Alert(
        "FarmCompileBudgetExceeded",
        Severity.TICKET,
        AboveOther(Read("farm_compile_time_seconds", {"stat": "p50"}), Read("farm_compile_budget_seconds"), _CELL),
        "Compiling takes longer than was budgeted.",
        "farm report budget",
        hold_seconds=5 * _MINUTE,
    ),
    Alert(
        "FarmCostModelDrift",
        Severity.INFO,
        Above(Read("farm_cost_model_abs_log_error", {"quantile": "0.5"}), LIMIT_LOG_ERROR),
        "Half of the newest model's predictions are off by half or more.",
        "farm calibrate",
        hold_seconds=_HOUR,
    ),
    Alert(
        "FarmBisectionStuck",
        Severity.TICKET,
        Both(
            Older(Read("farm_bisection_last_progress_timestamp_seconds"), _HOUR),
            Above(Read("farm_bisections_active"), 0),
        ),
        "No probe of a bisection was decided for an hour.",
        "farm sweep --resume",
    ),
    Alert(
        "FarmQueueStalled",
        Severity.TICKET,
        Above(Read("farm_queue_oldest_seconds"), 1800),
        "Nothing has happened in an unfinished sweep for half an hour.",
        "farm sweep --resume",
        hold_seconds=5 * _MINUTE,
    ),
    Alert(
        "FarmAlertFlood",
        Severity.PAGE,
        Share(Read("farm_open_regressions"), Read("farm_measured_cells"), 0.1, 5),
        "So many regressions at once are more likely the machine or the toolchain than the passes.",
        "farm report regressions",
    ),
    Alert(
        "FarmSeriesTruncated",
        Severity.INFO,
        Truncated(),
        "The exporter has more series than it may show.",
        'farm query "select count(distinct subject) from candidates"',
        hold_seconds=5 * _MINUTE,
    ),
    Alert(
        "FarmExporterStale",
        Severity.PAGE,
        OfPrometheus(
            OlderThanPeriod(
                Read("farm_exporter_last_refresh_timestamp_seconds"),
                10,
                Read("farm_exporter_refresh_period_seconds"),
            ).promql()
        ),
        "The exporter answers, and can no longer read its store.",
        "farm store fsck",
    ),
    Alert(
        "FarmExporterDown",
        Severity.PAGE,
        OfPrometheus('up{job="farm"} == 0 or absent(up{job="farm"})'),
        "The exporter does not answer: every other alert shows what it last said, for a day at most.",
        "farm serve",
        hold_seconds=5 * _MINUTE,
    ),
    Alert(
        "FarmWatchdog",
        Severity.NONE,
        OfPrometheus("vector(1)"),
        "Always firing: where this stops arriving, the alerting is broken.",
        "none",
    ),
)


def firing(snapshot: Snapshot) -> list[Firing]:
    """What holds now, most severe first. Hold times do not count: what Prometheus calls pending fires here."""
    found = [Firing(alert, hit.labels, hit.value) for alert in ALERTS for hit in alert.condition.hits(snapshot)]
    return sorted(found, key=lambda item: list(Severity).index(item.alert.severity))


def exit_code(found: Iterable[Firing]) -> int:
    """20 where a page fires, else 21 where a ticket does, else 0."""
    severities = {item.alert.severity for item in found}
    return next((code for severity, code in EXIT_CODES.items() if severity in severities), 0)
