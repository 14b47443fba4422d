"""A long-lived exporter over one store: it reads every few seconds and answers scrapes with what it read last.

Invariant: a scrape never waits for the store, and a store that cannot be read never looks empty.
"""

from __future__ import annotations

import errno
import ipaddress
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.farm.app.alerting import read_snapshot
from tensorfarm.farm.observe.exporter import Reading
from tensorfarm.farm.observe.scrape_server import PATH, ScrapeServer

DEFAULT_PORT = 9464
_GRACE_SECONDS = 1.0
_LONGEST_PERIOD_SECONDS = 3600.0


@dataclass(frozen=True)
class ServeRequest:
    """Where to listen, and how often to read. Another host than loopback needs ``exposed``; port 0 takes a free one."""

    store: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    every_seconds: float = 15.0
    exposed: bool = False


@contextmanager
def serving(request: ServeRequest, say: Callable[[str], None]) -> Generator[str]:
    """Serve while entered; yields the URL. ``say`` hears of failed refreshes, once until one succeeds again.

    Refuses, before anything listens, a store that cannot be read, and a place that cannot be listened on.
    """
    if not 0 < request.every_seconds <= _LONGEST_PERIOD_SECONDS:
        raise Refusal(
            f"--every {request.every_seconds:g} is no period",
            limit=f"more than 0 seconds and at most {_LONGEST_PERIOD_SECONDS:g}",
            next_step="correct it",
        )
    address = _allowed(request)
    first = _read(request)
    try:
        server = ScrapeServer(address, request.port, first.text())
    except OSError as error:
        raise _unusable(request, error) from None
    ended = threading.Event()
    refresher = threading.Thread(target=_refresh, args=(server, first, request, ended, say), daemon=True)
    refresher.start()
    try:
        host = f"[{request.host}]" if ":" in request.host else request.host
        yield f"http://{host}:{server.port}{PATH}"
    finally:
        ended.set()
        server.close()
        refresher.join(_GRACE_SECONDS)


def serve_until_interrupted(request: ServeRequest, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM, which raise KeyboardInterrupt here."""
    signal.signal(signal.SIGTERM, _interrupt)
    with serving(request, say) as url:
        say(f"serving {request.store} at {url}, read every {request.every_seconds:g} s; Ctrl-C ends it")
        threading.Event().wait()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _read(request: ServeRequest) -> Reading:
    began = time.monotonic()
    snapshot = read_snapshot(request.store)
    return Reading(snapshot, time.monotonic() - began, request.every_seconds)


def _refresh(
    server: ScrapeServer, first: Reading, request: ServeRequest, ended: threading.Event, say: Callable[[str], None]
) -> None:
    reading = first
    while not ended.wait(request.every_seconds):
        try:
            reading = _read(request)
        except Exception as error:  # whatever it is, scrapers must hear that the figures age
            if not reading.failing:
                say(f"the store could not be read, its last figures stand: {one_line(error)}")
            reading = replace(reading, failing=True)
        server.text = reading.text()


def _allowed(request: ServeRequest) -> str:
    """The address to bind. Refuses one that others can reach, unless that was asked for."""
    try:
        found = socket.getaddrinfo(request.host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        raise Refusal(
            f"{request.host!r} is no address of this machine", limit="such as 127.0.0.1", next_step="correct --host"
        ) from None
    address = str(found[0][4][0])
    if not request.exposed and not ipaddress.ip_address(address).is_loopback:
        raise Refusal(
            f"anyone who reaches {request.host} could read the store's figures",
            limit="a loopback address, such as 127.0.0.1, unless --expose",
            next_step="add --expose if that is meant",
        )
    return address


def _unusable(request: ServeRequest, error: OSError) -> Refusal:
    place = f"{request.host}:{request.port}"
    if error.errno == errno.EADDRINUSE:
        return Refusal(f"{place} is in use", limit="one listener a port", next_step="name another with --port, or 0")
    if error.errno == errno.EACCES:
        return Refusal(
            f"{place} may not be listened on", limit="ports from 1024 need no rights", next_step="name another --port"
        )
    return Refusal(f"{place} cannot be listened on: {error.strerror}", next_step="correct --host and --port")
