"""Ctrl-C and SIGTERM: asked for once, honoured at the next poll; gone within five seconds whatever hangs."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from tensorfarm.contract.outcome import INTERRUPTED_EXIT_CODE

GRACE_SECONDS = 4.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, SIGINT and SIGTERM set a flag. A second one, or four seconds, end the process at once.

    Nothing is lost then: every event was durable before the driver acted on it.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._before: dict[signal.Signals, Any] = {}

    def requested(self) -> bool:
        return bool(self.reason)

    def __enter__(self) -> Interruption:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.reason:
            os._exit(INTERRUPTED_EXIT_CODE)
        self.reason = signal.Signals(number).name
        watchdog = threading.Timer(GRACE_SECONDS, _leave)
        watchdog.daemon = True
        watchdog.start()


def _leave() -> None:
    """Something hangs, Ray's start most likely. What was recorded is safe."""
    os.write(2, b'farm: stopped; go on with "farm sweep --resume"\n')
    os._exit(INTERRUPTED_EXIT_CODE)
