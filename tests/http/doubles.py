"""HTTP connections without sockets: a transport that remembers, a loop of plain calls, and time as a number."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import h11

from coordinator.http.connection import Connection, Stream
from coordinator.http.exchange import Request, Steps
from coordinator.http.work import StepQueue
from harness.doubles.inline_workers import finished

HandleSteps = Callable[[Request], tuple[Steps, str] | Stream]


class Transport:
    """What a connection does to its socket. It is full, as for a peer that does not read, beyond `room` bytes."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.unsent = 0
        self.room = 1 << 40
        self.high = 0
        self.is_reading_now = True
        self.lingers = True
        self.has_ended = self.is_closed = self.is_aborted = False
        self.connection: Connection

    def write(self, data: bytes) -> None:
        self.written += data
        self.unsent = max(len(self.written) - self.room, 0)
        if self.unsent > self.high and not self.connection.is_blocked:
            self.connection.pause_writing()

    def read_by_peer(self) -> None:
        """The peer reads all of it, and goes on reading."""
        self.room, self.unsent = 1 << 40, 0
        self.connection.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high = high

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 50_000), "socket": self, "ssl_object": None}[name]

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER)
        self.lingers = struct.unpack("ii", value) != (1, 0)

    def is_reading(self) -> bool:
        return self.is_reading_now

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Loop:
    """Turns of a loop: `turn` calls what was asked for before it, `do_aside` does the work of threads."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.aside: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.is_turn_over = False
        self.now_ns = 0
        self.turns = 0

    def call_soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def turn(self) -> bool:
        """Whether there was anything to do."""
        actions, self._soon = self._soon, []
        self.turns += bool(actions)
        for action in actions:
            action()
        return bool(actions)

    def turn_until_idle(self) -> None:
        while self.turn():
            assert self.turns < 100_000, "there is no end"

    def do_aside(self) -> None:
        waiting, self.aside = self.aside, []
        for work, done in waiting:
            done(finished(work))


class Host:
    """The server, as a connection sees it; `handle` is a test's own."""

    def __init__(self, handle: HandleSteps, loop: Loop | None = None) -> None:
        self.loop = loop or Loop()
        self.steps = StepQueue(
            self.loop.call_soon,
            lambda: self.loop.is_turn_over,
            lambda work, done: self.loop.aside.append((work, done)),
            lambda: self.loop.now_ns,
        )
        self.clock_ms = 1_000
        self.handled: list[Request] = []
        self.connections: set[Connection] = set()
        self._handle = handle

    def now_ms(self) -> int:
        return self.clock_ms

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        self.handled.append(request)
        return self._handle(request)

    def on_connected(self, connection: Connection) -> None:
        self.connections.add(connection)

    def on_disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def connect(self) -> tuple[Connection, Transport]:
        transport = Transport()
        connection = transport.connection = Connection(self)
        connection.connection_made(cast(Any, transport))
        return connection, transport


def answers(written: bytes | bytearray, *methods: str) -> list[tuple[int, bytes, dict[str, str]]]:
    """The answers in these bytes to requests of these methods, as a client reads them: status, body, headers."""
    client = h11.Connection(h11.CLIENT)
    found = []
    rest = bytes(written)
    for method in methods or ("GET",):
        client.send(h11.Request(method=method, target="/", headers=[("Host", "localhost")]))
        client.send(h11.EndOfMessage())
        client.receive_data(rest)
        rest = b""
        body = b""
        while True:
            event = client.next_event()
            assert event is not h11.NEED_DATA, f"an answer is missing: {written!r}"
            if isinstance(event, h11.Response):
                status, headers = (
                    event.status_code,
                    {name.decode(): value.decode() for name, value in event.headers},
                )
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
        found.append((status, body, headers))
        if client.our_state is h11.DONE and client.their_state is h11.DONE:
            client.start_next_cycle()
    return found
