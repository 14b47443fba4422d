"""How soon a confirmed regression reaches a webhook, and how long a scrape takes.

Goals: at most 15 s from the acknowledged event to the delivery, at intervals of one second; a scrape of 2,000 series in
at most 200 ms (95th percentile). Needs Debian's prometheus and prometheus-alertmanager. ``--quick``: 2 deliveries.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from report import Goal, finish

from tensorfarm.contract import events as e
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "demo"))

from alert_stack import AlertStack

TARGET = "cpu/avx512"
N_CELLS = 500  # each has four series: a failure, a compile time, a regression, a nomination
N_SCRAPES = 50
PATIENCE_SECONDS = 120.0


def regression(kind: type[e.Event], subject: str, number: int) -> e.Event:
    return kind(
        "benchmark",
        subject,
        regression_id=f"{subject}-{number}",
        workload=f"{subject} inference {TARGET}",
        candidate_id="candidate",
        artifact_sha256="new",
        baseline="last_accepted",
        baseline_artifact="old",
        metric="step_seconds",
        device="cpu",
        ratio=1.3,
        ratio_lower=1.2,
        ratio_upper=1.4,
        smallest_detectable=1.02,
        verdict="worse",
        message="",
    )


def sweep_of_failures() -> Iterator[e.Event]:
    """A sweep whose every cell was compiled, refused and found slower: four series a cell."""
    programs = [{"name": f"p{number}", "mode": "inference", "pipelines": ["fx"]} for number in range(N_CELLS)]
    config = json.dumps({"programs": programs})
    yield e.SweepStarted("benchmark", "benchmark", "benchmark", config, "c", TARGET, "toolchain", "{}")
    for number in range(N_CELLS):
        subject, candidate = f"p{number}/fx", f"candidate-{number}"
        about, known = ("benchmark", subject), (f"p{number}", "fx", "fx")
        program, backend, pipeline = known
        yield e.CandidateSubmitted(
            *about,
            candidate_id=candidate,
            program=program,
            semantic_hash="hash",
            input_spec_id="spec",
            mode="inference",
            backend=backend,
            pipeline=pipeline,
            target=TARGET,
            toolchain_id="toolchain",
            contract_id="default",
            contract_hash="c0",
            dtype="float32",
        )
        yield e.CandidateCompiled(*about, candidate, "hash", f"artifact-{number}", 1, "built/x", 1.0)
        yield e.CandidateEnded(*about, candidate, *known, "conformance_failure", "", "")
        yield regression(e.RegressionConfirmed, subject, 0)


def tell(layout: StoreLayout, *events: e.Event) -> float:
    """Append and return when that was acknowledged, epoch seconds."""
    with closing(Journal(layout, claim_writer(layout))) as journal:
        journal.append([e.recorded(event, ts_us=time.time_ns() // 1000) for event in events])
    return time.time()


def deliveries(folder: Path, runs: int) -> list[float]:
    """Seconds from each acknowledged confirmation to its webhook; every regression is fixed before the next."""
    layout = StoreLayout(folder / "store").create()
    taken: list[float] = []
    with AlertStack(folder / "stack", layout.root) as stack:
        stack.await_notice("FarmWatchdog", "firing", since=0.0, seconds=PATIENCE_SECONDS)
        for number in range(runs):
            subject = f"p{number}/fx"
            labels = {"workload": f"{subject} inference {TARGET}", "since": 0.0, "seconds": PATIENCE_SECONDS}
            told = tell(layout, regression(e.RegressionConfirmed, subject, number))
            taken.append(stack.await_notice("FarmRegressionOpen", "firing", **labels).at - told)
            tell(layout, regression(e.RegressionFixed, subject, number))
            stack.await_notice("FarmRegressionOpen", "resolved", **labels)
    return taken


def scrapes(folder: Path) -> tuple[int, list[float]]:
    """How many series the exporter shows, and the seconds of each scrape while it goes on reading the store."""
    layout = StoreLayout(folder / "store").create()
    tell(layout, *sweep_of_failures())
    taken: list[float] = []
    lines: list[bytes] = []
    with AlertStack(folder / "stack", layout.root) as stack:
        for _ in range(N_SCRAPES):
            began = time.perf_counter()
            with urllib.request.urlopen(stack.metrics_url, timeout=60) as answer:
                lines = answer.read().splitlines()
            taken.append(time.perf_counter() - began)
            time.sleep(0.05)
    return sum(line.startswith(b"farm_") for line in lines), taken


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory(prefix="tensorfarm-benchmark-") as name:
        delays = deliveries(Path(name) / "deliveries", 2 if quick else 10)
        series, seconds = scrapes(Path(name) / "scrapes")
    worst, p95_ms = max(delays), statistics.quantiles(seconds, n=20)[18] * 1e3
    goals = [
        Goal(f"from confirmation to webhook, worst of {len(delays)}, seconds", "<= 15", worst, worst <= 15),
        Goal("series of the scrape", ">= 2000", series, series >= 2000),
        Goal(f"scrape, 95th percentile of {N_SCRAPES}, ms", "<= 200", p95_ms, p95_ms <= 200),
    ]
    details = {"deliveries": delays, "median_delivery": statistics.median(delays), "scrapes": seconds}
    finish("alerts-quick" if quick else "alerts", goals, details)


if __name__ == "__main__":
    main()
