"""What a connection leaves to a later turn: in its order, and nothing lost. The turn's clock is the test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.runtime.turn_share import CLOSINGS, DIRECT_S, SLICE_S, TurnShare
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from coordinator.server.memory_pool import UNCOUNTED_BYTES, MemoryPool
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepared
from protocol.framing import EncodedResponse
from protocol.messages.join_group import JoinGroupResponse
from tests.server.test_connection import BEAT, FakeServer, FakeTransport, connected_to, heartbeat, join

REQUEST_S = 0.001
IN_TURN = round(DIRECT_S / REQUEST_S)
IN_SLICE = round(SLICE_S / REQUEST_S)


class BusyServer(FakeServer):
    """Its requests take a millisecond of CPU each, and nothing else does."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_s = 0.0
        self.turn = TurnShare(self.call_soon, lambda: self.cpu_s, lambda: int(self.cpu_s * 1e9))
        self.gone: list[Connection] = []
        self.is_answering = False
        self.next_turn()

    def handle(self, request: Any, pending: Pending) -> None:
        super().handle(request, pending)
        self.cpu_s += REQUEST_S
        if self.is_answering:
            pending.reply(BEAT)

    def on_disconnected(self, connection: Connection) -> None:
        self.gone.append(connection)

    def next_turn(self) -> list[int]:
        """Do what waits for the next turn; return the requests that it started."""
        before = len(self.started)
        self.turn.begin(self.cpu_s)
        waiting, self.soon = self.soon, []
        for action in waiting:
            action()
        return self.started_ids()[before:]

    def use_up(self) -> None:
        """Another connection has taken the rest of this turn."""
        self.cpu_s += DIRECT_S


@pytest.fixture
def server() -> BusyServer:
    return BusyServer()


def beats(first: int, last: int) -> bytes:
    return b"".join(heartbeat(number) for number in range(first, last + 1))


def test_requests_beyond_the_share_of_a_turn_are_started_in_the_next_in_order(server: BusyServer) -> None:
    server.is_answering = True
    transport = FakeTransport()
    connection = connected_to(server, transport)
    last = IN_TURN + 2 * IN_SLICE
    connection.data_received(beats(1, last - 1) + heartbeat(last)[:10])
    assert server.started_ids() == list(range(1, IN_TURN + 1))
    connection.data_received(heartbeat(last)[10:] + heartbeat(last + 1))
    assert not transport.is_reading(), "what comes behind has to stay in the socket"
    turns = [server.next_turn() for _ in range(4)]
    assert max(map(len, turns)) <= IN_SLICE
    assert server.started_ids() == list(range(1, last + 2))
    assert transport.answered() == list(range(1, last + 2))
    assert transport.is_reading()


def test_what_comes_in_the_next_turn_waits_for_what_was_put_off(server: BusyServer) -> None:
    """Sockets are read before what was put off comes up, and that turn has a share of its own."""
    transport = FakeTransport()
    connection = connected_to(server, transport)
    server.use_up()
    connection.data_received(heartbeat(1))
    server.turn.begin(server.cpu_s)
    assert not server.turn.is_over()
    connection.data_received(heartbeat(2))
    assert server.started_ids() == []
    server.next_turn()
    server.next_turn()
    assert server.started_ids() == [1, 2]


def test_a_client_that_sends_more_than_its_slices_is_read_no_faster(server: BusyServer) -> None:
    """What it has sent and nobody has read stays in its socket, however long that goes on."""
    server.is_answering = True
    transport = FakeTransport()
    connection = connected_to(server, transport)
    sent = reads = 0
    for _ in range(20):
        if transport.is_reading():
            connection.data_received(beats(sent + 1, sent + 4 * IN_SLICE))
            sent += 4 * IN_SLICE
            reads += 1
        server.next_turn()
        assert sent - len(server.started) <= 2 * 4 * IN_SLICE, "two reads are kept, not all"
    assert reads > 2, "it is read on"
    while not transport.is_reading():
        server.next_turn()
    assert server.started_ids() == list(range(1, sent + 1))


def test_connections_come_up_one_after_the_other(server: BusyServer) -> None:
    server.use_up()
    assert server.turn.is_over()
    connections = [connected_to(server, FakeTransport()) for _ in range(2 * IN_SLICE)]
    for number, connection in enumerate(connections):
        connection.data_received(join(number))
        assert connection.waits_for_disk, "it is not the peer that others wait for"
        assert connection.awaits_answer, "it is not idle"
    assert server.started_ids() == []
    turns = [server.next_turn() for _ in range(2)]
    assert turns == [list(range(IN_SLICE)), list(range(IN_SLICE, 2 * IN_SLICE))]


def test_what_there_is_no_memory_to_put_off_is_started_at_once(server: BusyServer) -> None:
    """Else the connections that come last would be closed for it, though they sent no more than others."""
    data = beats(1, 200)
    assert len(data) > UNCOUNTED_BYTES
    count = 20
    server.memory_pool = MemoryPool(
        count * len(data) // 2, server.clock, lambda owner, key, deadline_ms: None
    )
    server.is_answering = True
    server.use_up()
    transports = [FakeTransport() for _ in range(count)]
    for transport in transports:
        connected_to(server, transport).data_received(data)
    assert not any(transport.is_closed for transport in transports)
    assert [bool(transport.written) for transport in transports] == [False] * (count // 2) + [True] * (
        count // 2
    )
    while server.soon:
        server.next_turn()
    assert [len(transport.answered()) for transport in transports] == [200] * count


def put_off(server: BusyServer, data: bytes) -> tuple[Connection, FakeTransport]:
    """A connection that has received `data` in a turn that was used up."""
    transport = FakeTransport()
    connection = connected_to(server, transport)
    server.use_up()
    connection.data_received(data)
    assert server.started_ids() == []
    return connection, transport


def lost(connection: Connection) -> None:
    connection.connection_lost(ConnectionResetError())


def ended(connection: Connection) -> None:
    assert connection.eof_received(), "the transport is to stay until what came was started"


@pytest.mark.parametrize("ends", [(lost,), (ended,), (ended, lost)], ids=["lost", "ended", "ended, lost"])
def test_what_came_before_a_client_hung_up_is_started(
    server: BusyServer, ends: tuple[Callable[[Connection], None], ...]
) -> None:
    """As it would have been at once: a producer that wants no answer may send and close."""
    connection, transport = put_off(server, beats(1, IN_SLICE + 2))
    for end in ends:
        end(connection)
    assert server.gone == []
    assert server.next_turn() == list(range(1, IN_SLICE + 1))
    assert not transport.is_closed
    assert server.next_turn() == [IN_SLICE + 1, IN_SLICE + 2]
    assert not connection.is_open
    if lost in ends:
        assert server.gone == [connection]
    else:
        assert transport.is_closed
    for pending in server.started:
        pending.reply(BEAT)
    assert transport.written == b"", "there is nobody to answer to"
    server.use_up()
    assert server.next_turn() == []


def test_a_request_before_the_end_is_answered_if_the_client_still_reads(server: BusyServer) -> None:
    server.is_answering = True
    connection, transport = put_off(server, beats(1, 2))
    ended(connection)
    server.next_turn()
    assert transport.answered() == [1, 2]
    assert transport.is_closed


def test_a_request_behind_one_that_waits_is_started_before_the_end(server: BusyServer) -> None:
    """A consumer may leave behind a commit and close. The end is seen again once the socket is read again."""
    connection, transport = put_off(server, join(1) + heartbeat(2))
    ended(connection)
    assert server.next_turn() == [1]
    assert not transport.is_closed
    assert not transport.is_reading()
    server.started[0].reply(JoinGroupResponse())
    assert server.next_turn() == [2]
    server.started[1].reply(BEAT)
    assert transport.answered() == [1, 2]
    assert transport.is_reading()
    assert not connection.eof_received(), "nothing is left: the loop may close the transport"


def test_thousands_that_hang_up_at_once_are_let_go_of_in_later_turns(server: BusyServer) -> None:
    connections = [connected_to(server, FakeTransport()) for _ in range(3)]
    server.use_up()
    for connection in connections:
        lost(connection)
        assert not connection.is_open
    assert server.gone == []
    server.next_turn()
    assert server.gone == connections


def test_of_thousands_that_hang_up_at_once_so_many_are_closed_in_a_turn(server: BusyServer) -> None:
    """What it costs to close one comes behind the call that asks for it, and is not seen by the share."""
    ends = []
    for number in range(2 * CLOSINGS + 1):
        transport = FakeTransport()
        connection = connected_to(server, transport)
        ends.append((connection, transport, connection.eof_received()))
        assert ends[-1][2] == (number >= CLOSINGS), "True: it is closed by us, later"
    waiting = [connection for connection, _, is_later in ends if is_later]
    server.next_turn()
    assert [each.is_open for each in waiting] == [False] * CLOSINGS + [True]
    server.next_turn()
    assert not any(each.is_open for each in waiting)


def test_what_was_put_off_is_not_started_when_the_daemon_stops(server: BusyServer) -> None:
    connection, transport = put_off(server, heartbeat(1))
    connection.stop_reading()
    assert not transport.is_reading()
    assert server.next_turn() == []
    assert not transport.is_reading()


def test_a_closed_connection_starts_nothing_more(server: BusyServer) -> None:
    connection, _ = put_off(server, heartbeat(1))
    connection.abort()
    lost(connection)
    assert server.next_turn() == []
    assert server.gone == [connection]


def beating(server: BusyServer) -> tuple[Connection, FakeTransport]:
    """A connection whose heartbeats 0 to 2 were answered: they are prepared, so the last by its bytes alone."""

    def prepare(request: object, version: int, frame: bytes) -> Prepared:
        answer = EncodedResponse(BEAT, version)
        return Prepared(
            frame, lambda: True, lambda _, pending: pending.reply(BEAT), answer=lambda at_ms: answer
        )

    server.is_answering = True
    server.apis.update(api_table({12: server.handle}, {12: prepare}))
    transport = FakeTransport()
    connection = connected_to(server, transport)
    for number in range(3):
        connection.data_received(heartbeat(number))
    assert server.started_ids() == [0, 1]
    return connection, transport


def test_answers_of_prepared_heartbeats_are_sent_later_where_a_turn_has_had_many(server: BusyServer) -> None:
    """They are handled all the same, also where the turn is used up: to put them off costs as much."""
    connection, transport = beating(server)
    server.use_up()
    connection.data_received(heartbeat(3))
    assert transport.answered() == [0, 1, 2, 3]
    server.turn.cheap_left = 0
    connection.data_received(heartbeat(4))
    assert transport.answered() == [0, 1, 2, 3]
    assert not connection.is_held_back
    server.next_turn()
    assert transport.answered() == [0, 1, 2, 3, 4]


def test_each_answer_of_a_prepared_heartbeat_counts(server: BusyServer) -> None:
    connection, transport = beating(server)
    server.turn.cheap_left = 2
    for number in range(3, 6):
        connection.data_received(heartbeat(number))
    assert transport.answered() == [0, 1, 2, 3, 4], "the last one is sent in the next turn"


def test_a_client_that_does_not_wait_for_such_an_answer_gets_all_in_order(server: BusyServer) -> None:
    connection, transport = beating(server)
    server.turn.cheap_left = 0
    connection.data_received(heartbeat(3))
    assert transport.answered() == [0, 1, 2]
    server.turn.cheap_left = 5
    connection.data_received(heartbeat(4))
    assert transport.answered() == [0, 1, 2, 3, 4], "both, in one write"
    server.next_turn()
    assert transport.answered() == [0, 1, 2, 3, 4]


def test_an_answer_that_waits_to_be_sent_is_sent_before_the_end(server: BusyServer) -> None:
    connection, transport = beating(server)
    server.turn.cheap_left = 0
    connection.data_received(heartbeat(3))
    connection.close()
    assert transport.answered() == [0, 1, 2, 3]
    server.next_turn()
    assert transport.answered() == [0, 1, 2, 3]
