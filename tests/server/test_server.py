"""Which connections the server closes by itself, and how; in-process, on a fake transport."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from coordinator.runtime.clock import Clock
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from coordinator.server.pending import Pending
from coordinator.server.server import Server
from coordinator.settings.model import Settings
from harness.doubles.inline_workers import InlineWorkers
from harness.doubles.manual_timers import ManualTimers
from tests.server.test_connection import JOINED, LISTENER, FakeTransport, join

IDLE_MS = 1_000
JOIN_GROUP = 11


class Transport(FakeTransport):
    """Keeps what it could not send: closing it politely then takes for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.extra["socket"] = socket.socket()
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
async def server() -> Server:
    settings = Settings(connections_max_idle_ms=IDLE_MS)
    return Server({}, settings, Clock(), ManualTimers().set_timer, InlineWorkers())


@pytest.fixture
def transport() -> Any:
    transport = Transport()
    yield transport
    transport.get_extra_info("socket").close()


def idle(server: Server, transport: Transport) -> Connection:
    connection = Connection(server, LISTENER.name)
    connection.connection_made(transport)
    connection.last_request_ms -= IDLE_MS
    return connection


@pytest.mark.parametrize(("idle_ms", "looked_after_ms"), [(IDLE_MS, [IDLE_MS]), (-1, [])])
async def test_a_connection_is_looked_at_after_the_idle_time_and_never_without_one(
    transport: Transport, idle_ms: int, looked_after_ms: list[int]
) -> None:
    timers = ManualTimers()
    settings = Settings(connections_max_idle_ms=idle_ms)
    server = Server({}, settings, Clock(), timers.set_timer, InlineWorkers())
    connection = Connection(server, LISTENER.name)
    connection.connection_made(transport)
    looked_at_ms = [connection.last_request_ms + each for each in looked_after_ms]
    assert timers.calls == [(server, connection, each) for each in looked_at_ms]


async def test_an_idle_connection_is_closed_once_its_answers_are_out(
    server: Server, transport: Transport
) -> None:
    server.timer_fired(idle(server, transport))
    assert (transport.is_closed, transport.is_aborted) == (True, False)


async def test_a_connection_that_waits_for_its_answer_is_not_idle(transport: Transport) -> None:
    """The silence is the daemon's: a parked JoinGroup may wait for longer than a connection may be silent."""
    parked: list[Pending] = []
    timers = ManualTimers()
    server = Server(
        api_table({JOIN_GROUP: lambda request, pending: parked.append(pending)}),
        Settings(connections_max_idle_ms=IDLE_MS),
        Clock(),
        timers.set_timer,
        InlineWorkers(),
    )
    connection = idle(server, transport)
    connection.data_received(join(1))
    connection.last_request_ms -= IDLE_MS
    asked_ms = server.clock.now_ms()
    server.timer_fired(connection)
    assert not transport.is_closed
    assert timers.timers[server, connection] >= asked_ms + IDLE_MS
    parked[0].reply(JOINED)
    server.timer_fired(connection)
    assert (transport.answered(), transport.is_closed) == ([1], True)


async def test_an_idle_peer_that_does_not_read_is_cut_off(server: Server, transport: Transport) -> None:
    """Its unsent answers would keep the connection, and its place among the maximum, for ever."""
    connection = idle(server, transport)
    connection.pause_writing()
    server.timer_fired(connection)
    assert transport.is_aborted


async def test_a_closed_connection_that_its_peer_does_not_drain_is_cut_off(
    server: Server, transport: Transport
) -> None:
    connection = idle(server, transport)
    connection.refuse("broke the protocol")
    server.timer_fired(connection)
    assert transport.is_aborted


async def test_the_stop_waits_for_the_last_answers_no_longer_than_its_timeout(
    server: Server, transport: Transport
) -> None:
    connection = idle(server, transport)
    await server.close_connections(within_s=0.001)
    assert len(server._connections) == 1
    connection.connection_lost(None)
    await server.close_connections(within_s=60)
    assert len(server._connections) == 0


async def test_connections_inherit_the_listeners_buffer_sizes() -> None:
    settings = Settings(socket_send_buffer_bytes=20_000, socket_receive_buffer_bytes=-1)
    server = Server({}, settings, Clock(), ManualTimers().set_timer, InlineWorkers())
    accepted: asyncio.Queue[Connection] = asyncio.Queue()
    server.on_connected = lambda connection, ip: accepted.put_nowait(connection)  # type: ignore[method-assign]  # Watched.
    await server.listen([LISTENER])
    _, port = server.endpoint_for(LISTENER.name)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    transport = (await accepted.get())._transport
    assert transport is not None
    ours, theirs = transport.get_extra_info("socket"), writer.get_extra_info("socket")

    def sizes(option: int) -> list[int]:
        return [each.getsockopt(socket.SOL_SOCKET, option) for each in (ours, theirs)]

    given, default = sizes(socket.SO_SNDBUF)
    assert 20_000 <= given <= 2 * 20_000 < default  # Linux doubles what it is given.
    assert len(set(sizes(socket.SO_RCVBUF))) == 1
    writer.close()
    await server.stop_listening()
