"""A connection's order and back-pressure, by plain calls: a fake transport, handlers that answer on command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.runtime.clock import NEVER_MS, Clock
from coordinator.runtime.turn_share import unlimited
from coordinator.security.rights import Rights
from coordinator.server.api_table import Api, api_table
from coordinator.server.connection import TURN_BYTES, Connection
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.order import MAX_UNANSWERED
from coordinator.server.outgoing import SlowReaders
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepared
from coordinator.server.server import Server
from coordinator.settings.listeners import ListenerConfig
from harness.doubles.inline_workers import InlineWorkers
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse, encode_request
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

ANSWER = Struct(">ii")  # Size, correlation id.
LISTENER = ListenerConfig("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
MAX_BYTES = 1 << 16


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        self.extra: dict[str, Any] = {"peername": ("127.0.0.1", 5)}
        super().__init__(self.extra)
        self.written = b""
        self.writes = 0
        self._is_reading = True
        self.is_closed = False
        self.unread_bytes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        self.writes += 1

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def answered(self) -> list[int]:
        """The correlation ids of all answers so far, in the order they were written."""
        found, position = [], 0
        while position < len(self.written):
            size, correlation_id = ANSWER.unpack_from(self.written, position)
            found.append(correlation_id)
            position += 4 + size
        return found


class FullTransport(FakeTransport):
    """Of a peer that does not read: whatever is written pauses its connection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: Any) -> None:
        super().write(data)
        self._connection.pause_writing()


class FakeServer:
    """Keeps every request that reached a handler; runs `call_soon` on command."""

    def __init__(self) -> None:
        self.started: list[Pending] = []
        self.soon: list[Callable[[], None]] = []
        self.clock = Clock()
        self.turn = unlimited(self.call_soon)
        self.max_request_bytes = MAX_BYTES
        self.accept_at_ms = NEVER_MS
        self.looks = 0
        self._acceptor = SimpleNamespace(accept=self._look)
        self.memory_pool = MemoryPool(-1, self.clock, lambda owner, key, deadline_ms: None)
        self.readers = InlineWorkers()
        self.slow_readers = SlowReaders()
        self.rights: Rights | None = None
        self.apis: dict[int, Api] = api_table(dict.fromkeys((11, 12, 16), self.handle))

    def handle(self, request: Any, pending: Pending) -> None:
        self.started.append(pending)

    def accept(self, now_ms: int) -> None:
        """As the server does it, which then says when the next look is due."""
        real: Any = Server
        real.accept(self, now_ms)

    def _look(self) -> None:
        self.looks += 1

    def on_connected(self, connection: Connection, ip: str) -> None: ...
    def on_disconnected(self, connection: Connection) -> None: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def started_ids(self) -> list[int]:
        return [pending.correlation_id for pending in self.started]


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


def connected_to(server: FakeServer, transport: FakeTransport) -> Connection:
    made = Connection(server, LISTENER.name)
    made.connection_made(transport)
    return made


@pytest.fixture
def connection(server: FakeServer, transport: FakeTransport) -> Connection:
    return connected_to(server, transport)


def heartbeat(correlation_id: int) -> bytes:
    return encode_request(
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, correlation_id, "c"
    )


def join(correlation_id: int, *protocols: JoinGroupRequestProtocol) -> bytes:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=list(protocols),
    )
    return encode_request(request, 9, correlation_id, "c")


def list_groups(correlation_id: int) -> bytes:
    return encode_request(ListGroupsRequest(), 5, correlation_id, "c")


BEAT, JOINED, LISTED = HeartbeatResponse(), JoinGroupResponse(member_id="m"), ListGroupsResponse(groups=[])


def test_answers_leave_in_the_order_of_the_requests(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(heartbeat(1) + heartbeat(2) + heartbeat(3))
    assert server.started_ids() == [1, 2, 3], "pipelined heartbeats start at once"
    server.started[2].reply(BEAT)
    server.started[1].reply(BEAT)
    assert transport.answered() == []
    server.started[0].reply(BEAT)
    assert transport.answered() == [1, 2, 3]
    assert transport.writes == 1


def test_who_waits_to_be_accepted_is_looked_at_between_requests(server: FakeServer) -> None:
    """Every ten milliseconds, however many requests came in one go."""
    times_ns = iter(range(0, 10**9, 4_000_000))
    server.clock = Clock(lambda: next(times_ns))
    connection = connected_to(server, FakeTransport())
    server.accept_at_ms = 0
    connection.data_received(b"".join(heartbeat(number) for number in range(9)))
    assert len(server.started) == 9
    assert server.looks == 3


def test_a_parked_join_parks_what_is_behind_it_on_its_connection(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(join(1) + heartbeat(2) + list_groups(3))
    assert server.started_ids() == [1]
    assert not transport.is_reading()
    server.started[0].reply(JOINED)
    assert server.started_ids() == [1], "not in the turn that caused the answer"
    server.run_soon()
    assert server.started_ids() == [1, 2]
    server.started[1].reply(BEAT)
    server.run_soon()
    assert transport.is_reading()
    server.started[2].reply(LISTED)
    assert transport.answered() == [1, 2, 3]


def test_a_request_that_does_not_pipeline_waits_for_those_that_do(
    server: FakeServer, connection: Connection
) -> None:
    """Else a Fetch could miss the Produce before it that waits for its flush."""
    connection.data_received(heartbeat(1) + list_groups(2))
    assert server.started_ids() == [1]
    server.started[0].reply(BEAT)
    server.run_soon()
    assert server.started_ids() == [1, 2]


def test_unanswered_requests_are_bounded(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(b"".join(heartbeat(number) for number in range(MAX_UNANSWERED + 10)))
    assert len(server.started) == MAX_UNANSWERED
    assert not transport.is_reading()
    for pending in list(server.started):
        pending.reply(BEAT)
    server.run_soon()
    assert len(server.started) == MAX_UNANSWERED + 10


def test_nothing_starts_while_the_peer_does_not_read(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    connection.pause_writing()
    connection.data_received(heartbeat(1))
    assert not server.started
    assert not transport.is_reading()
    connection.resume_writing()
    server.run_soon()
    assert server.started_ids() == [1]
    assert transport.is_reading()


def test_answers_of_one_segment_are_no_more_than_a_peer_takes(
    server: FakeServer,
) -> None:
    """A few bytes can ask for very many: those behind an answer that is not taken wait, in the same turn."""
    group = ListedGroup(group_id="x" * 100, protocol_type="consumer")
    long_list = ListGroupsResponse(groups=[group] * (TURN_BYTES // 100))
    server.apis = api_table({16: lambda request, pending: pending.reply(long_list)})
    asked = Connection(server, LISTENER.name)
    transport = FullTransport(asked)
    asked.connection_made(transport)
    asked.data_received(list_groups(1) + list_groups(2) + list_groups(3))
    assert (transport.answered(), transport.is_reading()) == ([1], False)
    asked.resume_writing()
    server.run_soon()
    assert transport.answered() == [1, 2]


def test_a_frame_in_pieces_is_one_request(server: FakeServer, connection: Connection) -> None:
    frame = heartbeat(1) + heartbeat(2)
    for position in range(len(frame)):
        connection.data_received(frame[position : position + 1])
    assert server.started_ids() == [1, 2]


@pytest.mark.parametrize("cut", range(1, 60))
def test_requests_are_the_same_wherever_the_stream_is_cut(
    server: FakeServer, connection: Connection, cut: int
) -> None:
    stream = heartbeat(1) + heartbeat(2) + heartbeat(3)
    connection.data_received(stream[:cut])
    connection.data_received(stream[cut:])
    assert server.started_ids() == [1, 2, 3]


def test_what_was_answered_before_a_bad_frame_still_leaves(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    server.handle = lambda request, pending: pending.reply(BEAT)  # type: ignore[method-assign]
    server.apis.update(api_table({12: server.handle}))
    connection.data_received(heartbeat(1) + b"\xff\xff\xff\xff")
    assert transport.answered() == [1]
    assert transport.is_closed


def test_an_answer_for_a_closed_connection_is_dropped(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    """3.89: the member stays, the late reply goes nowhere."""
    connection.data_received(join(1))
    connection.connection_lost(None)
    server.started[0].reply(JOINED)
    assert transport.answered() == []


def test_no_reply_gives_up_its_place(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    """Produce with acks=0: what is behind it is answered as if it had never been."""
    connection.data_received(heartbeat(1) + heartbeat(2))
    server.started[1].reply(BEAT)
    server.started[0].no_reply()
    assert transport.answered() == [2]


def test_answering_twice_is_our_bug_and_says_so(server: FakeServer, connection: Connection) -> None:
    connection.data_received(heartbeat(1) + heartbeat(2))
    server.started[1].reply(BEAT)
    with pytest.raises(AssertionError, match="twice"):
        server.started[1].reply(BEAT)


def test_an_answer_that_its_version_cannot_say_closes_the_connection(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    """It would else fail what gave it: a shard, with every request that waits for it."""
    connection.data_received(heartbeat(1) + join(2))
    server.started[0].reply(BEAT)
    server.run_soon()
    server.started[1].reply(JoinGroupResponse(member_id="m" * 40_000))
    assert transport.answered() == [1]
    assert transport.is_closed


def test_a_peer_that_has_hung_up_already_is_let_go(server: FakeServer) -> None:
    transport = FakeTransport()
    transport.extra["peername"] = None
    Connection(server, LISTENER.name).connection_made(transport)
    assert transport.is_closed


def test_a_connection_that_stops_reading_answers_what_it_started_and_starts_no_more(
    server: FakeServer, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(join(1) + heartbeat(2))
    connection.stop_reading()
    assert not transport.is_reading()
    server.started[0].reply(JOINED)
    server.run_soon()
    assert transport.answered() == [1]
    assert server.started_ids() == [1]


class Beats:
    """Prepares heartbeats that count, and answer with how often that was."""

    def __init__(self) -> None:
        self.count = 0

        self.is_current = True

    def prepare(self, request: HeartbeatRequest, version: int, frame: bytes) -> Prepared:
        def answered() -> EncodedResponse:
            self.count += 1
            return EncodedResponse(HeartbeatResponse(error_code=ErrorCode(self.count)), version)

        def answer(now_ms: int) -> EncodedResponse | None:
            return answered() if self.is_current else None

        def run(numbers: tuple[int, ...], pending: Pending) -> None:
            pending.reply(answered())

        return Prepared(frame, lambda: self.is_current, run, answer=answer)


@pytest.fixture
def beats(server: FakeServer) -> Beats:
    beats = Beats()
    handlers = dict.fromkeys((9, 11, 12, 16), server.handle)
    server.apis.update(api_table(handlers, {12: beats.prepare}))
    return beats


def teach(server: FakeServer, connection: Connection) -> None:
    """Send two heartbeats, 0 and 1: the second of a size is prepared."""
    for number in range(2):
        connection.data_received(heartbeat(number))
        server.started[number].reply(BEAT)


def test_the_same_request_again_is_not_decoded_but_asked_again(
    server: FakeServer, transport: FakeTransport, beats: Beats, connection: Connection
) -> None:
    """Only the correlation id differs: the answer is that of the state now, under the new id."""
    teach(server, connection)
    connection.data_received(heartbeat(2))
    connection.data_received(heartbeat(3))
    assert server.started_ids() == [0, 1]
    assert beats.count == 2
    assert transport.answered() == [0, 1, 2, 3]


@pytest.mark.parametrize("changed", ["generation", "version", "client", "group"])
def test_a_request_that_differs_in_anything_else_is_decoded(
    server: FakeServer, beats: Beats, connection: Connection, changed: str
) -> None:
    teach(server, connection)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    version, client_id = 4, "c"
    match changed:
        case "generation":
            request.generation_id = 2
        case "version":
            version = 3
        case "client":
            client_id = "d"
        case "group":
            request.group_id = "h"
    connection.data_received(encode_request(request, version, 2, client_id))
    assert server.started_ids() == [0, 1, 2]
    assert beats.count == 0


def test_a_repeated_request_keeps_its_place_in_the_order(
    server: FakeServer, transport: FakeTransport, beats: Beats, connection: Connection
) -> None:
    teach(server, connection)
    connection.data_received(join(2))
    connection.data_received(heartbeat(3))
    assert (server.started_ids(), beats.count) == ([0, 1, 2], 0), "it waits behind the join"
    server.started[2].reply(JOINED)
    server.run_soon()
    assert (server.started_ids(), beats.count) == ([0, 1, 2], 1)
    assert transport.answered() == [0, 1, 2, 3]


def test_a_repeated_request_waits_while_the_peer_does_not_read(
    server: FakeServer, beats: Beats, connection: Connection
) -> None:
    teach(server, connection)
    connection.pause_writing()
    connection.data_received(heartbeat(2))
    assert (server.started_ids(), beats.count) == ([0, 1], 0)


def test_equal_requests_in_one_segment_are_answered_each(
    server: FakeServer, transport: FakeTransport, beats: Beats, connection: Connection
) -> None:
    """As of a client that pipelines: neither is decoded, and a piece of a third waits for the rest."""
    teach(server, connection)
    third = heartbeat(4)
    connection.data_received(heartbeat(2) + heartbeat(3) + third[:20])
    assert (server.started_ids(), beats.count) == ([0, 1], 2)
    assert transport.answered() == [0, 1, 2, 3]
    assert transport.writes == 3
    connection.data_received(third[20:])
    assert (transport.answered(), beats.count) == ([0, 1, 2, 3, 4], 3)


def test_a_repeated_request_waits_for_another_that_is_before_it_in_its_segment(
    server: FakeServer, transport: FakeTransport, beats: Beats, connection: Connection
) -> None:
    teach(server, connection)
    connection.data_received(list_groups(2) + heartbeat(3))
    assert (transport.answered(), beats.count) == ([0, 1], 0)
    server.started[2].reply(LISTED)
    server.run_soon()
    assert (transport.answered(), beats.count) == ([0, 1, 2, 3], 1)


def test_a_prepared_request_that_is_no_longer_current_is_decoded(
    server: FakeServer, beats: Beats, connection: Connection
) -> None:
    teach(server, connection)
    beats.is_current = False
    connection.data_received(heartbeat(2))
    server.started[2].reply(BEAT)
    connection.data_received(heartbeat(3) + heartbeat(4))
    assert (server.started_ids(), beats.count) == ([0, 1, 2, 3, 4], 0)


def test_a_prepared_request_behind_another_waits_for_its_place_and_is_not_decoded(
    server: FakeServer, transport: FakeTransport, beats: Beats, connection: Connection
) -> None:
    """Pipelined behind a fetch of offsets whose answer is not there yet."""
    teach(server, connection)
    fetch = encode_request(OffsetFetchRequest(group_id="g"), 5, 2, "c")
    connection.data_received(fetch + heartbeat(3))
    assert (server.started_ids(), beats.count) == ([0, 1, 2], 1)
    assert transport.answered() == [0, 1], "it keeps its place"
    server.started[2].reply(OffsetFetchResponse())
    assert transport.answered() == [0, 1, 2, 3]


# Throttled clients.


@pytest.mark.asyncio
async def test_the_longer_of_two_throttle_times_counts(connection: Connection) -> None:
    """Two answers of one turn may each ask for theirs (KIP-219)."""

    def left_s() -> float:
        assert connection._end_of_mute is not None
        return connection._end_of_mute.when() - asyncio.get_running_loop().time()

    connection.mute(60_000)
    connection.mute(10)
    assert left_s() > 50
    connection.mute(120_000)
    assert left_s() > 110
    connection.unmute()
    assert connection._end_of_mute is None
