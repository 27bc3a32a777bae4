"""HTTP as a test speaks it: one request, raw bytes, or a stream of events that is read when the test says so."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from harness.processes import HOST

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class HttpAnswer:
    """A status, the headers, and the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(port: int, path: str, headers: Mapping[str, str] | None = None, **query: object) -> HttpAnswer:
    """GET a path, with the parameters of a query."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request(
            "GET", path + (f"?{urlencode(query)}" if query else ""), headers=dict(headers or {})
        )
        answer = connection.getresponse()
        return HttpAnswer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def send_raw(port: int, data: bytes, timeout_s: float = TIMEOUT_S) -> bytes:
    """Send bytes, and return all that comes until the daemon closes."""
    with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
        connection.sendall(data)
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
        return found


class StreamedEvent(NamedTuple):
    """An event as a client of the stream reads it."""

    kind: str
    event_id: int | None
    data: Any


class EventStream:
    """One client of `/api/v1/events`. `read` takes what has come; nothing is read in between."""

    def __init__(
        self, port: int, *, last_id: int | None = None, start: str = "latest", **query: object
    ) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=TIMEOUT_S)
        target = f"/api/v1/events?{urlencode({'from': start, **query})}"
        header = "" if last_id is None else f"Last-Event-ID: {last_id}\r\n"
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode())
        self._rest = b""
        self._is_behind_head = False
        self.last_id = last_id
        self.is_over = False

    def read(self) -> list[StreamedEvent]:
        """Wait for more, and return the events that are whole. At the end `is_over` is True."""
        return [event for block in self._blocks() if (event := self._event(block)) is not None]

    def read_ids(self) -> list[int]:
        """The ids alone of what comes next, which must be nothing but events of groups: ten times as fast.

        Signs of life are passed over.
        """
        ids = []
        for block in self._blocks():
            if block.startswith(b": beat\n"):
                continue
            name, kind, data = block.split(b"\n", 2)
            assert (name[:4], kind, data[:6]) == (b"id: ", b"event: group", b"data: "), block
            ids.append(int(name[4:]))
        return ids

    def _blocks(self) -> list[bytes]:
        data = self.socket.recv(1 << 18)
        self.is_over = not data
        self._rest += data
        if not self._is_behind_head:
            head, separator, rest = self._rest.partition(b"\r\n\r\n")
            if not separator:
                return []
            assert head.startswith(b"HTTP/1.1 200 "), head
            self._is_behind_head, self._rest = True, rest
        *blocks, self._rest = self._rest.split(b"\n\n")
        return blocks

    def _event(self, block: bytes) -> StreamedEvent | None:
        kind, data = "message", None
        for line in block.decode().split("\n"):
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                data = value
        return None if data is None else StreamedEvent(kind, self.last_id, json.loads(data))

    def read_until(self, count: int) -> list[StreamedEvent]:
        """Return as many events, or more."""
        found: list[StreamedEvent] = []
        while len(found) < count:
            found += self.read()
            assert not self.is_over, f"the stream is over after {len(found)} events"
        return found

    def close(self) -> None:
        self.socket.close()
