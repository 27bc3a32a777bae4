"""Requests that are so large that a thread decodes them: their order, their memory, and what does not decode."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from coordinator.server.connection import Connection
from coordinator.server.decoding import ASIDE_FROM_BYTES
from harness.doubles.inline_workers import InlineWorkers
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from tests.server.test_connection import FakeServer, FakeTransport, connected_to, heartbeat, join


class HeldThreads(InlineWorkers):
    """Threads that do their work when the test says so."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.held.append((work, done))

    def run(self) -> None:
        held, self.held = self.held, []
        for work, done in held:
            super().submit(work, done)


@pytest.fixture
def threads() -> HeldThreads:
    return HeldThreads()


@pytest.fixture
def server(threads: HeldThreads) -> FakeServer:
    server = FakeServer()
    server.max_request_bytes = 4 * ASIDE_FROM_BYTES
    server.readers = threads
    return server


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


@pytest.fixture
def connection(server: FakeServer, transport: FakeTransport) -> Connection:
    return connected_to(server, transport)


def large_join(correlation_id: int) -> bytes:
    return join(correlation_id, JoinGroupRequestProtocol(name="range", metadata=bytes(ASIDE_FROM_BYTES)))


def test_a_large_request_is_started_once_a_thread_has_decoded_it(
    server: FakeServer, threads: HeldThreads, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(large_join(1))
    assert server.started == []
    assert connection.awaits_answer
    threads.run()
    assert server.started_ids() == [1]
    server.started[0].reply(JoinGroupResponse(member_id="m"))
    assert transport.answered() == [1]


def test_nothing_overtakes_a_request_that_is_being_decoded(
    server: FakeServer, threads: HeldThreads, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(heartbeat(1))
    server.started[0].reply(HeartbeatResponse())
    connection.data_received(large_join(2) + heartbeat(3))
    assert server.started_ids() == [1]
    assert not transport.is_reading()
    threads.run()
    assert server.started_ids() == [1, 2]
    server.started[1].reply(JoinGroupResponse(member_id="m"))
    server.run_soon()
    assert server.started_ids() == [1, 2, 3]


def test_a_request_counts_in_the_pool_while_it_is_decoded(
    server: FakeServer, threads: HeldThreads, connection: Connection
) -> None:
    connection.data_received(large_join(1))
    assert server.memory_pool.used_bytes > ASIDE_FROM_BYTES
    threads.run()
    assert server.memory_pool.used_bytes == 0


def test_a_large_request_that_does_not_decode_closes_its_connection(
    server: FakeServer, threads: HeldThreads, transport: FakeTransport, connection: Connection
) -> None:
    frame = bytearray(large_join(1))
    frame[-1] = 0xFF  # A tag where the message ends.
    connection.data_received(bytes(frame))
    assert not transport.is_closed
    threads.run()
    assert transport.is_closed
    assert server.started == []
    assert server.memory_pool.used_bytes == 0


def test_a_client_that_has_gone_meanwhile_is_forgotten(
    server: FakeServer, threads: HeldThreads, connection: Connection
) -> None:
    connection.data_received(large_join(1))
    connection.connection_lost(None)
    threads.run()
    assert server.started == []
    assert server.memory_pool.used_bytes == 0


def test_a_small_request_is_decoded_at_once(
    server: FakeServer, threads: HeldThreads, connection: Connection
) -> None:
    connection.data_received(join(1))
    assert server.started_ids() == [1]
    assert threads.held == []
