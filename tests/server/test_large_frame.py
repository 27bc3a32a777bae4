"""Large requests are read into their own buffer: whole, alone, and only as fast as they come."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.runtime.turn_share import DIRECT_S, TurnShare
from coordinator.server import order as order_module
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from coordinator.server.gathering import MAX_PIECES
from coordinator.server.large_frame import GROWTH, LARGE_FROM_BYTES, LargeFrame
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.pending import Pending
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.server.test_connection import LISTENER, FakeServer, FakeTransport, heartbeat

SIZE = 3 * LARGE_FROM_BYTES
PAYLOAD = bytes(range(256)) * (SIZE // 256)


class Switching(FakeTransport):
    """Hands bytes to whichever protocol stands, as a loop does, `step` at a time."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step
        self.protocol: Any = None
        self.largest_buffer = 0

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def receive(self, data: bytes) -> None:
        while data:
            if isinstance(self.protocol, LargeFrame):
                room = self.protocol.get_buffer(-1)
                count = min(self.step, len(room), len(data))
                room[:count] = data[:count]
                self.protocol.buffer_updated(count)
            else:
                count = min(self.step, len(data))
                self.protocol.data_received(data[:count])
            data = data[count:]


class Producing(FakeServer):
    def __init__(self) -> None:
        super().__init__()
        self.max_request_bytes = 1 << 24
        self.apis = api_table(dict.fromkeys((0, 12), self.handle))
        self.requests: list[Any] = []

    def handle(self, request: Any, pending: Pending) -> None:
        super().handle(request, pending)
        self.requests.append(request)


def produce(correlation_id: int, payload: bytes = PAYLOAD) -> bytes:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=payload)])
    return encode_request(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic]), 9, correlation_id, "c")


def connected(server: Producing, step: int) -> tuple[Connection, Switching]:
    transport = Switching(step)
    made = Connection(server, LISTENER.name)
    made.connection_made(transport)
    transport.protocol = made
    return made, transport


@pytest.mark.parametrize("step", [999, 16_384, 70_000, SIZE * 10])
def test_large_and_small_requests_in_a_row_arrive_as_they_were_sent(step: int) -> None:
    server = Producing()
    _, transport = connected(server, step)
    transport.receive(b"".join([produce(1), heartbeat(2), produce(3), produce(4, b"small"), produce(5)]))
    for pending in iter(lambda: next((each for each in server.started if each.chunks is None), None), None):
        pending.reply(ProduceResponse() if pending.api.name == "Produce" else HeartbeatResponse())
        for call in server.soon:
            call()
    assert transport.answered() == [1, 2, 3, 4, 5]
    produced = [each for each in server.requests if isinstance(each, ProduceRequest)]
    records = [bytes(each.topic_data[0].partition_data[0].records or b"") for each in produced]
    assert records == [PAYLOAD, PAYLOAD, b"small", PAYLOAD]


def test_a_large_request_is_the_handlers_own_to_write_into() -> None:
    server = Producing()
    _, transport = connected(server, 30_000)
    transport.receive(produce(1))
    records = server.requests[0].topic_data[0].partition_data[0].records
    assert not records.readonly
    assert bytes(records) == PAYLOAD


def test_memory_follows_what_has_come_and_not_what_was_claimed() -> None:
    server = Producing()
    _, transport = connected(server, 1 << 20)
    transport.receive((10 << 20).to_bytes(4, "big") + produce(1)[4:20_000])
    assert isinstance(transport.protocol, LargeFrame)
    assert transport.protocol.received_bytes == 20_000
    received = 20_000
    for _ in range(20):
        room = len(transport.protocol.get_buffer(-1))
        assert received + room <= GROWTH * received
        transport.receive(bytes(5000))
        received += 5000


def test_a_claim_alone_gets_no_buffer() -> None:
    _, transport = connected(Producing(), 1 << 20)
    transport.receive((10 << 20).to_bytes(4, "big") + produce(1)[4:5000])
    assert isinstance(transport.protocol, Connection)


def test_the_bytes_of_unanswered_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "MAX_UNANSWERED_BYTES", 2 * SIZE)
    server = Producing()
    _, transport = connected(server, 50_000)
    transport.receive(produce(1) + produce(2) + produce(3))
    assert [pending.correlation_id for pending in server.started] == [1, 2]
    assert not transport.is_reading()
    server.started[0].reply(ProduceResponse())
    for call in server.soon:
        call()
    assert [pending.correlation_id for pending in server.started] == [1, 2, 3]


def test_a_connection_lost_in_the_middle_is_forgotten() -> None:
    made, transport = connected(Producing(), 50_000)
    transport.receive(produce(1)[:100_000])
    transport.protocol.connection_lost(None)
    assert not made.is_open


class TestMemory:
    """With a pool that has room for one frame of these."""

    @staticmethod
    def server() -> Producing:
        server = Producing()
        server.memory_pool = MemoryPool(SIZE + 40_000, server.clock, lambda owner, key, deadline_ms: None)
        return server

    def test_a_frame_waits_unread_until_another_is_answered(self) -> None:
        server = self.server()
        (_, first), (_, second) = connected(server, 30_000), connected(server, 30_000)
        whole = produce(1)
        first.receive(whole[:60_000])
        second.receive(whole[:20_000])
        assert (first.is_reading(), second.is_reading()) == (True, False)
        first.receive(whole[60_000:])
        assert not second.is_reading(), "the request is whole, and holds its memory until it is answered"
        server.started[0].reply(ProduceResponse())
        assert second.is_reading()
        second.receive(whole[20_000:])
        assert len(server.requests) == 2
        server.started[1].reply(ProduceResponse())
        assert server.memory_pool.used_bytes == 0

    def test_a_frame_that_is_whole_at_the_end_of_a_turn_keeps_its_memory(self) -> None:
        """It is put off and counted once, where it was counted as a frame before."""
        server, cpu_s = self.server(), 0.0
        server.turn = TurnShare(server.call_soon, lambda: cpu_s, lambda: int(cpu_s * 1e9))
        (_, first), (gone, second) = connected(server, 30_000), connected(server, 30_000)
        whole = produce(1)
        server.turn.begin(0.0)
        first.receive(whole[:60_000])
        second.receive(whole[:20_000])
        cpu_s = DIRECT_S
        first.receive(whole[60_000:])
        assert not first.is_closed
        assert server.started == []
        assert server.memory_pool.used_bytes == len(whole) + 20_000
        assert not second.is_reading()
        server.run_soon()
        server.started[0].reply(ProduceResponse())
        assert second.is_reading()
        gone.connection_lost(None)
        server.run_soon()
        assert server.memory_pool.used_bytes == 0

    def test_memory_is_given_back_when_the_answer_is_there_though_the_peer_is_not(self) -> None:
        server = self.server()
        connection, transport = connected(server, 30_000)
        transport.receive(produce(1))
        connection.connection_lost(None)
        assert server.memory_pool.used_bytes > SIZE, "the log still has it"
        server.started[0].reply(ProduceResponse())
        assert server.memory_pool.used_bytes == 0

    @pytest.mark.parametrize("cut", [10_000, 20_000, 100_000])
    def test_memory_is_given_back_when_the_peer_goes(self, cut: int) -> None:
        server = self.server()
        connection, transport = connected(server, 30_000)
        transport.receive(produce(1)[:cut])
        assert server.memory_pool.used_bytes > 0
        connection.connection_lost(None)
        assert server.memory_pool.used_bytes == 0

    def test_small_requests_are_answered_while_there_is_no_memory(self) -> None:
        server = self.server()
        server.memory_pool.take(SIZE * 2)
        _, small = connected(server, 30_000)
        small.receive(heartbeat(2))
        server.started[0].reply(HeartbeatResponse())
        small.receive(produce(3, b"small"))
        server.started[1].reply(ProduceResponse())
        assert small.answered() == [2, 3]

    def test_what_comes_byte_by_byte_is_joined(self) -> None:
        server = self.server()
        connection, transport = connected(server, 1)
        transport.receive(produce(1, bytes(5000))[:3000])
        assert len(connection._backlog) <= MAX_PIECES
