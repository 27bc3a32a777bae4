"""A prepared commit that comes whole skips what `consume` does for any request, and keeps to the same rules."""

from __future__ import annotations

from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from coordinator.server.memory_pool import UNCOUNTED_BYTES
from coordinator.server.order import MAX_UNANSWERED_BYTES
from coordinator.server.outgoing import UNREAD_BYTES
from coordinator.server.pending import Pending
from coordinator.server.prepared import MOST_BYTES, Prepared, template_of_commit
from protocol.framing import EncodedResponse, encode_request
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.server.test_connection import JOINED, LISTENER, FakeServer, FakeTransport, FullTransport, join

VERSION = 8
NOTE_BYTES = 1_000
ANSWER = EncodedResponse(OffsetCommitResponse(), VERSION)


def commit(number: int, note: str = "") -> bytes:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata=note)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[row])]
    return encode_request(OffsetCommitRequest(group_id="g", topics=topics), VERSION, number, "c")


class Commits:
    """A connection whose commits are prepared, and wait to be answered by the test."""

    def __init__(self, note: str = "") -> None:
        self.server, self.transport = FakeServer(), FakeTransport()
        self.waiting: list[Pending] = []
        self.offsets: list[tuple[int, ...]] = []
        self.is_current = True
        self.note = note
        handlers = dict.fromkeys((8, 11, 16), self.server.handle)
        self.server.apis.update(api_table(handlers, {8: self.prepare}))
        self.connection = Connection(self.server, LISTENER.name)
        self.connection.connection_made(self.transport)
        for number in range(2):  # The second of a size is prepared.
            self.send(number)
            self.server.started[number].reply(ANSWER)

    def prepare(self, request: OffsetCommitRequest, version: int, frame: bytes) -> Prepared:
        template = template_of_commit(request, version, frame)
        assert template is not None
        return Prepared(frame, lambda: self.is_current, self.run, template=template)

    def run(self, offsets: tuple[int, ...], pending: Pending) -> None:
        self.offsets.append(offsets)
        self.waiting.append(pending)

    def send(self, number: int) -> None:
        self.connection.data_received(commit(number, self.note))

    @property
    def seen(self) -> tuple[list[int], list[int]]:
        """The correlation ids of those that were decoded, and of those that were not."""
        return self.server.started_ids(), [each.correlation_id for each in self.waiting]


def test_it_is_not_decoded_and_its_answer_leaves_when_it_is_there() -> None:
    client = Commits()
    client.send(2)
    assert client.seen == ([0, 1], [2])
    assert client.offsets == [(2,)]
    assert (client.waiting[0].client_id, client.waiting[0].api_version) == ("c", VERSION)
    assert client.transport.answered() == [0, 1]
    client.waiting[0].reply(ANSWER)
    assert client.transport.answered() == [0, 1, 2]
    assert not client.connection.awaits_answer


def test_it_waits_behind_a_request_that_is_parked() -> None:
    client = Commits()
    client.connection.data_received(join(2))
    client.send(3)
    assert client.seen == ([0, 1, 2], [])
    client.server.started[2].reply(JOINED)
    client.server.run_soon()
    assert client.seen == ([0, 1, 2], [3])


def test_several_keep_their_order_whichever_is_answered_first() -> None:
    client = Commits()
    for number in (2, 3, 4):
        client.send(number)
    assert client.seen == ([0, 1], [2, 3, 4])
    client.waiting[1].reply(ANSWER)
    assert client.transport.answered() == [0, 1]
    client.waiting[0].reply(ANSWER)
    client.waiting[2].reply(ANSWER)
    assert client.transport.answered() == [0, 1, 2, 3, 4]


def test_what_waits_behind_it_is_started_when_it_is_answered() -> None:
    client = Commits()
    client.send(2)
    client.connection.data_received(encode_request(ListGroupsRequest(), 4, 3, "c"))
    assert client.seen == ([0, 1], [2])
    client.waiting[0].reply(ANSWER)
    client.server.run_soon()
    assert client.seen == ([0, 1, 3], [2])


def test_it_waits_while_the_peer_does_not_read() -> None:
    client = Commits()
    client.connection.pause_writing()
    client.send(2)
    assert client.seen == ([0, 1], [])


def test_it_waits_while_an_answer_is_being_read_from_a_file() -> None:
    client = Commits()
    client.connection._sending = [b"a piece"]
    client.send(2)
    assert client.seen == ([0, 1], [])


def test_none_is_started_on_a_connection_that_was_closed() -> None:
    client = Commits()
    client.connection.close()
    client.send(2)
    assert client.seen == ([0, 1], [])


def test_a_client_that_only_commits_is_not_idle() -> None:
    client = Commits()
    client.connection.last_request_ms = 0
    client.send(2)
    assert client.connection.last_request_ms > 0


def test_its_answer_frees_its_place_among_the_unanswered_bytes() -> None:
    """Requests that pipeline may have so many bytes unanswered; an answer that left has none."""
    client = Commits("x" * NOTE_BYTES)
    for number in range(2, 4 + MAX_UNANSWERED_BYTES // NOTE_BYTES):
        client.send(number)
        client.waiting[-1].reply(ANSWER)
    client.send(number + 1)
    client.send(number + 2)
    assert client.seen[1][-2:] == [number + 1, number + 2], "the second one starts behind the first"


def test_an_answer_that_the_peer_does_not_read_is_counted() -> None:
    """What all such peers hold is bounded: the one that has waited longest is cut off."""
    client, longest = Commits(), FakeTransport()
    longest.unread_bytes = UNREAD_BYTES
    client.server.slow_readers.add(longest)
    full = FullTransport(client.connection)
    client.connection._write = full.write
    client.connection.pause_writing()
    client.connection._write_blocked = False
    client.send(2)
    assert not longest.is_closed
    client.transport.unread_bytes = UNREAD_BYTES
    client.waiting[0].reply(ANSWER)
    assert longest.is_closed


def test_one_that_is_not_current_is_decoded() -> None:
    client = Commits()
    client.is_current = False
    client.send(2)
    assert client.seen == ([0, 1, 2], [])


def test_it_is_accepted_for_meanwhile() -> None:
    """Accepting comes first, however many clients commit."""
    client = Commits()
    client.server.accept_at_ms = 0
    client.send(2)
    assert client.server.looks == 1


def test_a_large_one_is_decoded_and_counted_in_the_pool_while_it_waits() -> None:
    assert MOST_BYTES <= UNCOUNTED_BYTES, "what is prepared is not counted"
    note = "x" * MOST_BYTES
    client = Commits(note)
    client.send(2)
    assert client.seen == ([0, 1, 2], [])
    assert client.server.memory_pool.used_bytes == len(commit(2, note)) - 4
    client.server.started[2].reply(ANSWER)
    assert client.server.memory_pool.used_bytes == 0


def test_a_connection_that_is_gone_leaves_its_room_for_prepared_requests() -> None:
    client = Commits()
    pool = client.server.memory_pool
    left_bytes = pool._left_for_prepared_bytes
    client.connection.connection_lost(None)
    assert pool._left_for_prepared_bytes == left_bytes + len(commit(0))


def test_that_it_was_of_use_is_known() -> None:
    """Else what comes behind it at the same length would be prepared ever more seldom."""
    client = Commits("00")
    for generation in range(20):
        client.note = f"{generation:02}"
        for number in range(2, 5):
            seen = len(client.waiting)
            client.send(number)
            (client.waiting if len(client.waiting) > seen else client.server.started)[-1].reply(ANSWER)
            client.server.run_soon()
    assert len(client.waiting) == 3 + 19 * 2


def test_a_bug_closes_the_connection() -> None:
    client = Commits()
    client.connection._prepared.waiting.run = lambda offsets, pending: 1 / 0  # type: ignore[assignment]
    client.send(2)
    assert client.transport.is_closed
