"""Messages between a supervisor and its warm parent: a four-byte length, then JSON. An end of file is a death."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

_LENGTH = struct.Struct(">I")


def send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send one message whole. Raises OSError where nobody is left to read it."""
    body = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next message, or None where the other end is gone."""
    header = _exactly(connection, _LENGTH.size)
    body = header and _exactly(connection, _LENGTH.unpack(header)[0])
    return json.loads(body) if body else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    """``size`` bytes, or none at all where the stream ends before."""
    received = bytearray()
    while len(received) < size:
        try:
            chunk = connection.recv(size - len(received))
        except ConnectionError:
            return b""
        if not chunk:
            return b""
        received += chunk
    return bytes(received)
