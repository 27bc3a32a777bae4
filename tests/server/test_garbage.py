"""What requests, members, connections and topics leave goes at once: no cycle waits for a garbage collection.

The daemon's own (`muster.serve`) counts on it, and freezes what has grown old. On asyncio's own loop it does not:
transports are cycles there.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from struct import pack
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
import uvloop

from coordinator.server.api_counts import ApiCounts
from coordinator.server.connection import Connection
from coordinator.server.decoding import ASIDE_FROM_BYTES
from coordinator.server.pending import Pending
from harness.daemon_thread import DEADLINE_S, Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.server.asking import GROUP, TOPIC, commit, fetch, make_topic, produce
from tests.server.joining import beat, join, leave, sync
from tests.server.test_transactional_offsets import begin, hold
from tests.topics.requests import fetch_request, produce_request
from tests.topics.world import batch

OURS = ("coordinator.", "protocol.", "storage.", "uvloop.", "asyncio.")
LIVES = 20


@contextmanager
def garbage_kept() -> Iterator[list[Any]]:
    """What the collection at the end finds, and nothing collected until then."""
    gc.collect()
    gc.disable()
    found: list[Any] = []
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def ours(found: list[Any]) -> Counter[str]:
    names = (f"{type(each).__module__}.{type(each).__name__}" for each in found)
    return Counter(name for name in names if name.startswith(OURS))


def member(bootstrap: str) -> None:
    """It joins, works, and leaves; and one that left while it was waiting."""
    with WireClient(bootstrap) as parked:
        parked.send(join(group_id="waiting"), 3)
    with WireClient(bootstrap) as client:
        joined = client.ask(join(), 3)
        assert client.ask(sync(joined), 3).error_code == 0
        for offset in range(4):
            assert client.ask(beat(joined), 3).error_code == 0
            client.ask(commit(offset), 8)
            client.ask(fetch(), 8)
        assert client.ask(leave(joined.member_id), 3).error_code == 0
        client.ask(ListGroupsRequest(), 4)
        client.ask(DescribeGroupsRequest(groups=["m", GROUP]), 5)


def data(bootstrap: str) -> None:
    """Records written and read, and a reader that left while it was waiting."""
    with WireClient(bootstrap) as parked:
        parked.send(fetch_request((TOPIC, 0, 1 << 20), max_wait_ms=60_000), 12)
        parked.send(fetch_request((TOPIC, 0, 0), max_wait_ms=60_000, min_bytes=1 << 20), 12)
    with WireClient(bootstrap) as client:
        assert produce(client) == 0
        client.ask(fetch_request((TOPIC, 0, 0)), 12)


def transaction(bootstrap: str) -> None:
    """Offsets of a group, committed with it."""
    with WireClient(bootstrap) as client:
        producer = begin(client, f"t{uuid4()}")  # Another each time: the one before may still be completed.
        assert client.ask(AddOffsetsToTxnRequest(group_id=GROUP, **producer), 4).error_code == 0
        hold(client, producer)
        assert client.ask(EndTxnRequest(committed=True, **producer), 5).error_code == 0


def topic(bootstrap: str) -> None:
    """Made, written, read and deleted."""
    with WireClient(bootstrap) as client:
        made = CreatableTopic(name="brief", num_partitions=3, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 5).topics[0].error_code == 0
        written = client.ask(produce_request(batch(b"v"), "brief", 1), 9).responses[0]
        assert written.partition_responses[0].error_code == 0
        client.ask(fetch_request(("brief", 1, 0)), 12)
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="brief")], timeout_ms=10_000)
        assert client.ask(gone, 6).responses[0].error_code == 0


def refused(bootstrap: str) -> None:
    """A request so large that a thread decodes it, and it does not decode."""
    host, port = bootstrap.split(":")
    header = pack(">hhihc", 15, 4, 1, 1, b"c")  # DescribeGroups, by a client "c".
    group = pack(">h", 30_000) + bytes(30_000)
    body = pack(">i", 20) + group * 10  # The other ten are missing.
    assert len(body) > ASIDE_FROM_BYTES
    with create_connection((host, int(port)), DEADLINE_S) as client:
        client.sendall(pack(">i", len(header) + len(body)) + header + body)
        assert client.recv(1) == b"", "the connection is closed"


def no_connection_is_open() -> bool:
    return not any(isinstance(each, Connection) and each.is_open for each in gc.get_objects())


@pytest.mark.parametrize("life", [member, data, transaction, topic, refused])
def test_nothing_that_has_gone_waits_for_a_collection(tmp_path: Path, life: Callable[[str], None]) -> None:
    settings = {"group_initial_rebalance_delay_ms": 20}
    with Daemon(tmp_path, FaultyFiles(tmp_path), uvloop.new_event_loop, **settings) as daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topic(client)
        life(daemon.bootstrap)
        with garbage_kept() as found:
            for _ in range(LIVES):
                life(daemon.bootstrap)
            wait_until(no_connection_is_open, "the connections to be closed", DEADLINE_S)
        assert dict(ours(found)) == {}


class Channel:
    """A connection that is open, and closes where it is asked to."""

    client_host, listener_name, is_open = "/127.0.0.1", "PLAINTEXT", True

    def refuse(self, reason: str) -> None:
        self.is_open = False


def on_a_thread(work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(work)
    done(made)


def an_answer_too_long() -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id="g" * 40_000)])


def test_an_answer_that_a_thread_cannot_encode_goes_at_once() -> None:
    channel = Channel()
    with garbage_kept() as found:
        pending = Pending(
            cast(Any, channel),
            SimpleNamespace(name="DescribeGroups", pipelines=False, counts=ApiCounts(15)),
            0,
            1,
            "c",
        )
        pending.reply_aside(an_answer_too_long, on_a_thread)
        del pending
    assert not channel.is_open
    assert dict(ours(found)) == {}
