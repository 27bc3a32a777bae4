"""A client's connection to a broker's port, by plain calls: a broker that answers on command."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.gateway import answering, heads
from coordinator.gateway import connection as module
from coordinator.gateway.answering import UNANSWERED_MAX
from coordinator.gateway.connection import (
    PRODUCE_HEAD_BYTES_MAX,
    READ_BYTES_MAX,
    BrokerPortConnection,
)
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request, response_frame
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from protocol.messages.produce import ProduceRequest
from tests.gateway.doubles import Broker
from tests.gateway.parts import BROKER, GATEWAY_HOST, OTHER_NODE, SECRET, SECRET_PORT, front
from tests.server.test_connection import FakeServer, FakeTransport

NAME = "HOST-1"


class Way:
    """A client, its connection, and the broker behind it."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.broker = Broker()
        self.client = FakeTransport()
        self.gone: list[Any] = []
        host: Any = self.server
        host.on_disconnected = self.gone.append
        self.connection = BrokerPortConnection(host, NAME, BROKER, front(), self.broker)

    async def open(self) -> Way:
        self.connection.connection_made(self.client)
        self.broker.may_connect.set()
        await turn()
        return self

    def send(self, *requests: bytes) -> None:
        self.connection.data_received(b"".join(requests))


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def metadata(correlation_id: int) -> bytes:
    return encode_request(MetadataRequest(topics=[]), 12, correlation_id, "c")


def fetch(correlation_id: int) -> bytes:
    return encode_request(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 12, correlation_id, "c")


def init(correlation_id: int) -> bytes:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    return encode_request(request, 4, correlation_id, "c")


def heartbeat(correlation_id: int) -> bytes:
    request = HeartbeatRequest(group_id="ours", generation_id=1, member_id="m")
    return encode_request(request, 4, correlation_id, "c")


def produce(correlation_id: int, acks: int) -> bytes:
    return encode_request(ProduceRequest(acks=acks, timeout_ms=1, topic_data=[]), 9, correlation_id, "c")


INITIALIZED = InitProducerIdResponse(producer_id=5, producer_epoch=0)
BROKERS = MetadataResponse(brokers=[MetadataResponseBroker(node_id=BROKER, host=SECRET, port=SECRET_PORT)])


@pytest.mark.asyncio
async def test_what_passes_on_is_not_changed_by_a_byte() -> None:
    way = await Way().open()
    assert way.broker.asked_for == [BROKER]
    way.send(init(1), fetch(2))
    assert way.broker.transport.written == init(1) + fetch(2)
    way.broker.answer(1, INITIALIZED, 4)
    said = b"".join(bytes(chunk) for chunk in response_frame(1, INITIALIZED, 4))
    assert way.client.written == said
    assert way.connection.awaits_answer


@pytest.mark.asyncio
async def test_what_comes_before_the_broker_is_connected_waits_for_it() -> None:
    way = Way()
    way.connection.connection_made(way.client)
    way.send(init(1)[:7])
    way.send(init(1)[7:], init(2))
    assert not way.client.is_reading()
    await way.open()
    assert way.broker.transport.written == init(1) + init(2)
    assert way.client.is_reading()


@pytest.mark.asyncio
async def test_answers_of_the_gateway_wait_for_those_of_the_broker_before_them() -> None:
    way = await Way().open()
    way.send(init(1), heartbeat(2), metadata(3), heartbeat(4))
    assert way.broker.transport.written == init(1) + metadata(3)
    assert way.client.written == b""
    way.broker.answer(1, INITIALIZED, 4)
    assert way.client.answered() == [1, 2]
    way.broker.answer(3, BROKERS, 12)
    assert way.client.answered() == [1, 2, 3, 4]
    assert SECRET.encode() not in way.client.written
    assert GATEWAY_HOST.encode() in way.client.written
    assert not way.connection.awaits_answer


@pytest.mark.asyncio
async def test_a_group_of_ours_is_refused_at_once_where_nothing_is_before_it() -> None:
    way = await Way().open()
    way.send(heartbeat(7))
    assert way.broker.transport.written == b""
    _, answer = decode_response(HeartbeatResponse, 4, way.client.written[4:])
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.asyncio
async def test_our_groups_are_found_without_the_broker() -> None:
    way = await Way().open()
    way.send(encode_request(FindCoordinatorRequest(coordinator_keys=["ours"]), 4, 1, "c"))
    _, answer = decode_response(FindCoordinatorResponse, 4, way.client.written[4:])
    assert [each.node_id for each in answer.coordinators] == [OTHER_NODE]


@pytest.mark.asyncio
async def test_keys_of_both_kinds_are_asked_about_under_the_same_correlation_id() -> None:
    way = await Way().open()
    way.send(encode_request(FindCoordinatorRequest(coordinator_keys=["ours", "theirs"]), 4, 9, "me"))
    expected = encode_request(FindCoordinatorRequest(coordinator_keys=["theirs"]), 4, 9, "me")
    assert way.broker.transport.written == expected


@pytest.mark.asyncio
async def test_a_produce_without_acks_has_no_answer_that_others_wait_for() -> None:
    way = await Way().open()
    way.send(produce(1, acks=0), init(2))
    way.broker.answer(2, INITIALIZED, 4)
    assert way.client.answered() == [2]
    assert not way.connection.awaits_answer
    way.send(produce(3, acks=1))
    assert way.connection.awaits_answer


@pytest.mark.asyncio
async def test_a_produce_waits_for_the_bytes_that_say_whether_it_has_an_answer() -> None:
    way = await Way().open()
    whole = produce(1, acks=0)
    for byte in whole:
        way.send(bytes([byte]))
    assert way.broker.transport.written == whole
    assert not way.connection.awaits_answer


@pytest.mark.asyncio
async def test_a_version_of_api_versions_that_nobody_knows_is_answered_in_version_0() -> None:
    """KIP-511: the broker answers so, and what it offers is cut to what passes."""
    way = await Way().open()
    newer = bytearray(encode_request(ApiVersionsRequest(), 3, 1, "c"))
    newer[6:8] = (99).to_bytes(2, "big")
    way.send(bytes(newer))
    offered = [
        ApiVersion(api_key=18, min_version=0, max_version=5),
        ApiVersion(api_key=78, min_version=0, max_version=1),
    ]
    refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offered)
    way.broker.answer(1, refused, 0)
    _, answer = decode_response(ApiVersionsResponse, 0, way.client.written[4:])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(18, 4)]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "frame",
    [
        encode_request(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 16, 1, "c"),
        b"\x00\x00\x00\x09\x00\x4e\x00\x01\x00\x00\x00\x01\xff\xff\x00",  # ShareFetch.
        b"\x00\x00\x00\x02\x00\x00",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x0b\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01a",  # Metadata that ends early.
        (READ_BYTES_MAX + 100).to_bytes(4, "big") + b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\x00",
    ],
)
async def test_what_may_not_pass_closes_the_connection_and_nothing_reaches_the_broker(frame: bytes) -> None:
    way = Way()
    way.server.max_request_bytes = 1 << 22
    await way.open()
    way.send(frame)
    assert way.client.is_closed
    assert way.broker.transport.is_closed
    assert way.broker.transport.written == b""


@pytest.mark.asyncio
async def test_neither_side_is_read_while_the_other_does_not_read() -> None:
    way = await Way().open()
    assert way.broker.end is not None
    way.broker.end.pause_writing()
    assert not way.client.is_reading()
    way.broker.end.resume_writing()
    assert way.client.is_reading()
    way.connection.pause_writing()
    assert not way.broker.transport.is_reading()
    assert way.server.slow_readers.count == 1
    way.connection.resume_writing()
    assert way.broker.transport.is_reading()
    assert way.server.slow_readers.count == 0


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_is_asked_for_nothing_more_whoever_would_answer() -> None:
    way = await Way().open()
    way.connection.pause_writing()
    assert not way.client.is_reading()
    way.send(heartbeat(1), init(2))
    assert way.client.written == b""
    assert way.broker.transport.written == b""
    way.connection.resume_writing()
    way.server.run_soon()
    assert way.client.answered() == [1]
    assert way.broker.transport.written == init(2)
    assert way.client.is_reading()


@pytest.mark.asyncio
async def test_what_is_written_to_a_client_that_does_not_read_is_counted_again() -> None:
    way = await Way().open()
    way.send(init(1))
    way.connection.pause_writing()
    way.client.unread_bytes = 1 << 20
    way.broker.answer(1, INITIALIZED, 4)
    assert way.server.slow_readers._unread_bytes == 1 << 20
    way.connection.connection_lost(None)
    assert way.server.slow_readers.count == 0
    assert way.server.slow_readers._unread_bytes == 0


@pytest.mark.asyncio
async def test_answers_whose_turn_it_is_not_count_in_the_memory_of_all() -> None:
    way = await Way().open()
    way.send(init(1))
    before = way.server.memory_pool.used_bytes
    way.send(heartbeat(2))
    assert way.server.memory_pool.used_bytes > before
    way.broker.answer(1, INITIALIZED, 4)
    assert way.server.memory_pool.used_bytes == before


@pytest.mark.asyncio
async def test_what_a_broker_does_not_read_counts_in_the_memory_of_all() -> None:
    way = await Way().open()
    way.broker.transport.unread_bytes = 5_000
    way.send(init(1))
    assert way.server.memory_pool.used_bytes == 5_000
    way.broker.transport.unread_bytes = 0
    assert way.broker.end is not None
    way.broker.end.resume_writing()
    assert way.server.memory_pool.used_bytes == 0


@pytest.mark.asyncio
async def test_what_a_client_has_sent_goes_on_though_it_has_hung_up() -> None:
    """Without acks it would be lost: its client does not know."""
    way = await Way().open()
    way.send(produce(1, acks=0))
    way.connection.connection_lost(None)
    assert way.broker.transport.is_closed
    assert not way.broker.transport.is_aborted


@pytest.mark.asyncio
async def test_a_client_that_is_cut_off_sends_nothing_more() -> None:
    way = await Way().open()
    way.send(init(1))
    way.connection.abort()
    assert way.broker.transport.is_aborted


@pytest.mark.asyncio
async def test_a_head_that_never_ends_is_refused_and_not_read_anew_with_each_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    read = heads.acks_of

    def counted(frame: Any, head: Any) -> int:
        looked.append(len(frame))
        return read(frame, head)

    monkeypatch.setattr(module, "acks_of", counted)
    way = Way()
    way.server.max_request_bytes = 1 << 22
    await way.open()
    begun = (1 << 21).to_bytes(4, "big") + b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x01c" + b"\xff\xff\xff\x7f"
    way.send(begun)
    for _ in range(PRODUCE_HEAD_BYTES_MAX * 2 // 100):
        if way.client.is_closed:
            break
        way.send(bytes(100))
    assert way.client.is_closed
    assert way.broker.transport.written == b""
    assert len(looked) < 20


@pytest.mark.asyncio
async def test_whoever_waits_for_an_answer_is_not_idle_but_who_sends_half_a_request_is() -> None:
    way = await Way().open()
    assert not way.connection.awaits_answer
    way.send(fetch(1))
    assert way.connection.awaits_answer
    way.send(fetch(2)[:30])
    assert not way.connection.awaits_answer
    way.send(fetch(2)[30:])
    assert way.connection.awaits_answer
    way.connection.pause_writing()
    assert not way.connection.awaits_answer


@pytest.mark.asyncio
async def test_a_client_id_of_any_bytes_is_passed_on_as_it_is() -> None:
    way = await Way().open()
    asked = encode_request(FindCoordinatorRequest(coordinator_keys=["ours", "theirs"]), 4, 9, "xx")
    expected = encode_request(FindCoordinatorRequest(coordinator_keys=["theirs"]), 4, 9, "xx")
    way.send(asked.replace(b"xx", b"\xff\xfe"))
    assert way.broker.transport.written == expected.replace(b"xx", b"\xff\xfe")


@pytest.mark.asyncio
async def test_beyond_the_most_that_may_be_unanswered_requests_wait() -> None:
    way = await Way().open()
    numbers = range(UNANSWERED_MAX + 3)
    way.send(*map(init, numbers))
    assert way.broker.transport.written == b"".join(map(init, numbers[:UNANSWERED_MAX]))
    assert not way.client.is_reading()
    way.broker.answer(0, INITIALIZED, 4)
    way.server.run_soon()
    assert way.broker.transport.written == b"".join(map(init, numbers[: UNANSWERED_MAX + 1]))
    for number in numbers[1:]:
        way.broker.answer(number, INITIALIZED, 4)
        way.server.run_soon()
    assert way.client.answered() == list(numbers)
    assert way.client.is_reading()


@pytest.mark.asyncio
async def test_an_answer_to_nothing_ends_the_connection() -> None:
    way = await Way().open()
    way.broker.answer(1, INITIALIZED, 4)
    assert way.client.is_closed
    assert way.client.written == b""


@pytest.mark.asyncio
async def test_an_answer_that_cannot_be_read_is_not_passed_on() -> None:
    way = await Way().open()
    way.send(metadata(1))
    way.broker.say(b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00")
    assert way.client.is_closed
    assert way.client.written == b""


@pytest.mark.asyncio
async def test_a_broker_that_is_not_there_ends_the_connection() -> None:
    way = Way()
    way.broker.error = OSError("refused")
    await way.open()
    assert way.client.is_closed


@pytest.mark.asyncio
async def test_the_broker_hears_that_a_client_has_gone_and_the_client_that_the_broker_has() -> None:
    way = await Way().open()
    way.connection.connection_lost(None)
    assert way.broker.transport.is_closed
    assert way.gone == [way.connection]
    other = await Way().open()
    assert other.broker.end is not None
    other.broker.end.connection_lost(None)
    assert other.client.is_closed


@pytest.mark.asyncio
async def test_a_client_that_goes_before_the_broker_is_there_leaves_no_connection() -> None:
    way = Way()
    way.connection.connection_made(way.client)
    way.connection.connection_lost(None)
    way.broker.may_connect.set()
    await turn()
    assert way.broker.end is None or way.broker.transport.is_closed


@pytest.mark.asyncio
async def test_what_is_kept_counts_in_the_memory_of_all_and_is_given_back() -> None:
    way = await Way().open()
    pool = way.server.memory_pool
    begun = metadata(1)
    way.send(begun[:-1])
    assert pool.used_bytes == len(begun) - 1
    way.send(begun[-1:])
    assert pool.used_bytes == 0
    way.send(begun[:-1])
    way.connection.connection_lost(None)
    assert pool.used_bytes == 0


@pytest.mark.asyncio
async def test_where_the_memory_is_full_who_asks_for_more_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    way = await Way().open()
    monkeypatch.setattr(way.server.memory_pool, "capacity_bytes", 10)
    way.send(metadata(1)[:-1])
    assert way.client.is_closed


@pytest.mark.asyncio
async def test_an_answer_beyond_all_measure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "ANSWER_BYTES_MAX", 100)
    way = await Way().open()
    way.send(metadata(1))
    way.broker.say((101).to_bytes(4, "big"))
    assert way.client.is_closed


@pytest.mark.asyncio
async def test_at_the_end_what_went_on_is_still_answered_and_nothing_more_is_taken() -> None:
    way = await Way().open()
    way.send(init(1))
    way.connection.stop_reading()
    assert not way.client.is_reading()
    way.broker.answer(1, INITIALIZED, 4)
    assert way.client.answered() == [1]
    assert not way.client.is_reading()
    way.connection.close()
    assert way.client.is_closed
    assert way.broker.transport.is_closed
