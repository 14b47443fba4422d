"""Answers scrapes with a text that was made beforehand: a scrape computes nothing and waits for nothing."""

from __future__ import annotations

import ipaddress
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST

PATH = "/metrics"
_IDLE_SECONDS = 60.0
_CLOSE_WITHIN_SECONDS = 0.05


class ScrapeServer:
    """Listens on ``address`` and ``port`` (0 takes a free one) until closed. ``text`` may be replaced at any time.

    Raises OSError where the place cannot be listened on.
    """

    def __init__(self, address: str, port: int, text: bytes) -> None:
        self.text = text
        self._server = _family_of(address)((address, port), self._handler())
        self.port: int = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(_CLOSE_WITHIN_SECONDS,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _IDLE_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(HTTPStatus.NOT_FOUND, f"the gauges are at {PATH}")
                    return
                body = owner.text
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE_LATEST)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A line a scrape is no news."""

        return Handler


class _Version4(ThreadingHTTPServer):
    address_family = socket.AF_INET


class _Version6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def _family_of(address: str) -> type[ThreadingHTTPServer]:
    return _Version6 if ipaddress.ip_address(address).version == 6 else _Version4
