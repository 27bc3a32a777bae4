"""What is prepared has bounds: of each request, over all connections, and where it helps nobody."""

from __future__ import annotations

from typing import Any

from coordinator.runtime.clock import Clock
from coordinator.server.memory_pool import PREPARED_SHARE, MemoryPool
from coordinator.server.prepared import HEAD_BYTES, MOST_BYTES, REST_AT, Prepared, PreparedRequests
from protocol.codec.template import Template

COMMIT = 8
HEARTBEAT = 12


class Client:
    """A connection's prepared requests, by frames alone."""

    def __init__(self, pool: MemoryPool, key: int = COMMIT) -> None:
        self.requests = PreparedRequests(pool)
        self.key = key
        self.prepared = self.matched = 0
        self.is_loading = False

    def send(self, frame: bytes) -> None:
        if self.requests.match(self.key, frame, 0, len(frame)) is not None:
            self.matched += 1
            return
        self.requests.maybe_prepare(self.key, self._prepare, None, 0, frame)

    def _prepare(self, request: Any, version: int, frame: bytes) -> Prepared | None:
        if self.is_loading:
            return None
        self.prepared += 1
        if self.key == HEARTBEAT:
            return Prepared(frame, lambda: True, _nothing, answer=lambda now_ms: None)
        rest = frame[REST_AT:-8]
        template = Template(rest + bytes(8), rest + b"\xff" * 8)
        return Prepared(frame, lambda: True, _nothing, template=template)


def _nothing(*_: object) -> None:
    """Handles it."""


def pool(capacity_bytes: int = 0) -> MemoryPool:
    return MemoryPool(capacity_bytes, Clock(), lambda *_: None)


def frame(size_bytes: int, note: int = 0, offset: int = 0) -> bytes:
    """`size_bytes` that end with an offset, and have a note before it."""
    size = size_bytes.to_bytes(4)
    head = (size + bytes(HEAD_BYTES - 4)).ljust(REST_AT, b"\0")
    return head + note.to_bytes(size_bytes - len(head) - 8) + offset.to_bytes(8)


def test_a_request_that_comes_again_is_prepared_with_other_offsets() -> None:
    client = Client(pool())
    for offset in range(10):
        client.send(frame(100, offset=offset))
    assert (client.prepared, client.matched) == (1, 8)


def test_a_long_request_is_never_prepared() -> None:
    """It would take milliseconds of the loop, and memory that nobody counts."""
    for size_bytes, expected in ((MOST_BYTES, 1), (MOST_BYTES + 1, 0)):
        client = Client(pool())
        for offset in range(5):
            client.send(frame(size_bytes, offset=offset))
        assert client.prepared == expected, size_bytes


def test_what_all_connections_have_prepared_has_a_bound_and_the_rest_is_decoded() -> None:
    shared = pool(PREPARED_SHARE * 1_000)
    clients = [Client(shared) for _ in range(20)]
    for offset in range(5):
        for client in clients:
            client.send(frame(100, offset=offset))
    assert [client.matched for client in clients] == [3] * 10 + [0] * 10


def test_a_connection_that_is_gone_leaves_its_room_to_others() -> None:
    shared = pool(PREPARED_SHARE * 100)
    for _ in range(3):
        client = Client(shared)
        for size_bytes in (100, 99, 98):  # One takes the place of the one before.
            for offset in range(4):
                client.send(frame(size_bytes, offset=offset))
        assert client.matched == 6
        client.requests.forget()


def test_heartbeats_take_no_room() -> None:
    """Little more than their bytes is kept."""
    client = Client(pool(PREPARED_SHARE), HEARTBEAT)
    for _ in range(5):
        client.send(frame(100))
    assert (client.prepared, client.matched) == (1, 3)


def test_heartbeats_that_could_not_be_prepared_for_long_are_so_as_before_once_they_can() -> None:
    client = Client(pool(), HEARTBEAT)
    client.is_loading = True
    for _ in range(50):
        client.send(frame(100))
    client.is_loading = False
    for _ in range(50):
        client.send(frame(100))
    assert client.prepared == 1
    for generation in range(1, 20):
        client.matched = 0
        for _ in range(3):
            client.send(frame(100, note=generation))
        assert client.matched == 2, "as soon as the generation is another"


def test_what_differs_each_time_is_prepared_ever_more_seldom() -> None:
    """A note that counts on has one length, and is another request each time."""
    client = Client(pool())
    for number in range(1_000):
        client.send(frame(100, note=number))
    assert 5 < client.prepared < 20


def test_a_member_that_rebalances_is_prepared_anew_each_time() -> None:
    """Its generation is another, at the same length; what was of use before is so again."""
    client = Client(pool())
    for generation in range(20):
        for offset in range(4):
            client.send(frame(100, note=generation, offset=offset))
    assert client.prepared == 20


def test_after_much_waste_a_request_that_stays_the_same_is_prepared_at_last() -> None:
    client = Client(pool())
    for number in range(1_000):
        client.send(frame(100, note=number))
    for offset in range(2_000):
        client.send(frame(100, offset=offset))
    assert client.matched > 900
