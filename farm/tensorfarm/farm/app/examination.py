"""What a machine needs to run a sweep, looked at one by one; each finding says what was seen and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil
from packaging.version import Version

from tensorfarm.contract.inductor_runtime import build_root
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.store.layout import StoreLayout

# The ranges of pyproject.toml, for whoever runs from a checkout that no pip has installed.
_AT_LEAST = {
    "torch": "2.11",
    "triton": "3.6",
    "ray": "2.60",
    "duckdb": "1.4",
    "deltalake": "1.6",
    "transformers": "5.0",
}
_APT_LINE = "apt-get install git make g++ python3-venv python3-dev"
_ALERTING = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
_PYTHON_AT_LEAST = "3.11"
_MEMORY_GIB = 4.0


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was ``seen``, and what to do where it is not ``healthy``."""

    what: str
    healthy: bool
    seen: str
    advice: str = ""


def examine(store: Path) -> list[Finding]:
    """All findings, healthy ones too. Starts no cluster and writes nothing but the store's folders."""
    packages = [_package(name, minimum) for name, minimum in _AT_LEAST.items()]
    return [
        _python(),
        *packages,
        _compiler(),
        _headers(),
        _memory(),
        _folder("store", lambda: _store(store)),
        _builds(),
        _alerting(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    healthy = Version(version) >= Version(_PYTHON_AT_LEAST)
    return Finding("python", healthy, version, "" if healthy else f"at least {_PYTHON_AT_LEAST} is needed")


def _package(name: str, minimum: str) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, False, "absent", 'run "make venv"')
    healthy = Version(version) >= Version(minimum)
    return Finding(name, healthy, version, "" if healthy else f'at least {minimum} is needed: run "make venv"')


def _compiler() -> Finding:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        return Finding("g++", False, "absent", f'inductor compiles C++: run "{_APT_LINE}"')
    answer = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False)
    return Finding("g++", answer.returncode == 0, answer.stdout.strip() or answer.stderr.strip())


def _headers() -> Finding:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    healthy = header.is_file()
    return Finding("python headers", healthy, str(header), "" if healthy else f'run "{_APT_LINE}"')


def _memory() -> Finding:
    free = psutil.virtual_memory().available / 2**30
    advice = "" if free >= _MEMORY_GIB else f"a compile child may take {_MEMORY_GIB:.0f} GiB: close something"
    return Finding("free memory", free >= _MEMORY_GIB, f"{free:.1f} GiB, {os.cpu_count()} cores", advice)


def _store(store: Path) -> str:
    StoreLayout(store).create()
    return f"{store}, {shutil.disk_usage(store).free / 2**30:.0f} GiB free"


def _builds() -> Finding:
    def writable() -> str:
        root = build_root()
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.W_OK):
            raise Refusal(f"{root} is not writable", next_step="set TENSORFARM_BUILD_ROOT, the same on every node")
        return str(root)

    return _folder("build root", writable)


def _alerting() -> Finding:
    """Healthy either way: a sweep and ``farm alerts`` need none of these programs."""
    absent = [name for name in _ALERTING if shutil.which(name) is None]
    if not absent:
        return Finding("alerting", True, ", ".join(_ALERTING))
    advice = 'for alerts by webhook: run "apt-get install --no-install-recommends prometheus prometheus-alertmanager"'
    return Finding("alerting", True, f"{', '.join(absent)} absent", advice)


def _folder(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except (Refusal, OSError) as error:
        return Finding(what, False, str(error))
