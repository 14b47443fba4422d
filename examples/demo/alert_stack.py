"""Exporter, Prometheus, Alertmanager and a webhook receiver on free loopback ports, with the shipped configuration.

Only ports, paths and intervals differ from ``configs/``: seconds here. Tests, benchmark and demo use the same stack.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import yaml

from tensorfarm.farm.observe.alert_rules import rules_text

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
BINARIES = ("prometheus", "prometheus-alertmanager")  # called like Debian's packages
PACE = 1 / 300  # hold times: five minutes become one second
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Notice:
    """One alert of one delivery. ``at`` is when it arrived, epoch seconds; ``status`` is firing or resolved."""

    at: float
    status: str
    labels: Mapping[str, str]

    def matches(self, alert: str, status: str, labels: Mapping[str, str]) -> bool:
        return (self.labels["alertname"], self.status) == (alert, status) and labels.items() <= self.labels.items()


class Receiver:
    """A webhook that keeps what it was told, in order."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        notices = self.notices

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                at = time.time()
                notices.extend(Notice(at, item["status"], item["labels"]) for item in told["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class AlertStack:
    """All four, while entered; files and logs in ``folder``. The store must be there before."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder, self.store = folder, store
        self.receiver = Receiver()
        self.exporter_port, self._prometheus_port, self._alertmanager_port = _free_ports(3)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.exporter_port}/metrics"

    def __enter__(self) -> AlertStack:
        try:
            self._configure()
            self.start_exporter()
            listen = "--web.listen-address=127.0.0.1:"
            self._start(
                "alertmanager",
                "prometheus-alertmanager",
                f"--config.file={self.folder / 'alertmanager.yml'}",
                f"--storage.path={self.folder / 'alertmanager'}",
                f"{listen}{self._alertmanager_port}",
                "--cluster.listen-address=",
            )
            self._start(
                "prometheus",
                "prometheus",
                f"--config.file={self.folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.folder / 'prometheus'}",
                # It knows no Alertmanager in its first seconds, and what it told nobody it tells again after this.
                "--rules.alert.resend-delay=5s",
                f"{listen}{self._prometheus_port}",
            )
            for port in (self._alertmanager_port, self._prometheus_port):
                self._await(f"http://127.0.0.1:{port}/-/ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._running):
            self._end(name, signal.SIGTERM)
        self.receiver.close()

    def start_exporter(self) -> None:
        place = ("--store", str(self.store), "--port", str(self.exporter_port), "--every", "1")
        self._start("exporter", sys.executable, "-m", "tensorfarm.farm", "serve", *place)
        self._await(self.metrics_url)

    def kill_exporter(self) -> None:
        self._end("exporter", signal.SIGKILL)

    def firing(self) -> set[str]:
        """Names of the alerts that Prometheus holds as firing now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._prometheus_port}/api/v1/alerts", timeout=5) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return {item["labels"]["alertname"] for item in alerts if item["state"] == "firing"}

    def await_notice(self, alert: str, status: str, *, since: float, seconds: float, **labels: str) -> Notice:
        """The first such delivery after ``since`` (epoch seconds). Raises TimeoutError with what came instead."""

        def arrived() -> Notice | None:
            notices = [item for item in self.receiver.notices if item.at >= since]
            return next((item for item in notices if item.matches(alert, status, labels)), None)

        return self._within(seconds, arrived, f"{alert} {status}")

    def await_firing(self, alert: str, *, seconds: float) -> None:
        self._within(seconds, lambda: alert in self.firing() or None, f"{alert} in Prometheus")

    def _within(self, seconds: float, look: Callable[[], T | None], what: str) -> T:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (found := look()) is not None:
                return found
            time.sleep(_POLL_SECONDS)
        told = sorted({f"{item.labels['alertname']} {item.status}" for item in self.receiver.notices})
        raise TimeoutError(f"{what} did not come within {seconds:g} s; received: {', '.join(told) or 'nothing'}")

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "rules.yml").write_text(rules_text(PACE))
        prometheus = _read("prometheus/prometheus.yml")
        prometheus["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        prometheus["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{self.exporter_port}"]}]
        managers = [{"targets": [f"127.0.0.1:{self._alertmanager_port}"]}]
        prometheus["alerting"]["alertmanagers"][0]["static_configs"] = managers
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(prometheus))
        alertmanager = _read("alertmanager/alertmanager.yml")
        alertmanager["route"] |= {"group_wait": "0s", "group_interval": "1s"}
        for receiver in alertmanager["receivers"]:
            receiver["webhook_configs"][0]["url"] = f"{self.receiver.url}/{receiver['name']}"
        (self.folder / "alertmanager.yml").write_text(yaml.safe_dump(alertmanager))

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._running.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _await(self, url: str) -> None:
        """Until ``url`` answers; raises RuntimeError with the last words of a program that ended instead."""

        def answered() -> bool | None:
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended: {(self.folder / f'{name}.log').read_text()[-500:]}")
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return None

        self._within(_READY_SECONDS, answered, url)


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONFIGS / name).read_text())


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, each another one."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()
