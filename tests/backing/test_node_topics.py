"""What a node does with requests that name topics which it does not know yet: plain calls, a real connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.daemon.node_topics import TopicsFirst
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection
from protocol.codec.codec import decode, encode
from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.backing.test_cluster_topics import A, B, answer, topic, unknown
from tests.server.test_connection import FakeServer, FakeTransport

pytestmark = pytest.mark.asyncio

LONG_S = 3_600.0
COMMIT, FETCH, DELETE, HEARTBEAT = 8, 9, 47, 68
BY_ID = 10
"""Of OffsetCommit and OffsetFetch the version that names topics by their ids."""


def commit(*topics: tuple[str, bytes, int]) -> OffsetCommitRequest:
    """Of one partition of each topic: name, id, number."""
    named = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_id,
            partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=1)],
        )
        for name, topic_id, index in topics
    ]
    return OffsetCommitRequest(group_id="g", topics=named)


def fetch(topic_id: bytes, name: str = "") -> OffsetFetchRequest:
    named = OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[named])])


def delete(name: str, index: int) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index)]
    return OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions)]
    )


def heartbeat(*names: str) -> ConsumerGroupHeartbeatRequest:
    subscribed = list(names) or None
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=subscribed
    )


class Way:
    """A client of a node that knows topic "a", of two partitions; handlers answer at once."""

    def __init__(self, wait_s: float = LONG_S) -> None:
        self.topics = ClusterTopics(lambda name, topic_id: None, confirm_ms=30_000)
        self.topics.learn_all(answer(topic("a", A, [1], [1])))
        self.gone_on: list[Any] = []
        responses = {
            COMMIT: OffsetCommitResponse(topics=[]),
            FETCH: OffsetFetchResponse(),
            DELETE: OffsetDeleteResponse(),
            HEARTBEAT: ConsumerGroupHeartbeatResponse(),
        }

        def handle(request: Any, pending: Any) -> None:
            self.gone_on.append(request)
            pending.reply(responses[pending.api.key])

        server = FakeServer()
        server.apis = api_table(TopicsFirst(self.topics, wait_s).handlers(dict.fromkeys(responses, handle)))
        self._server, self._client = server, FakeTransport()
        self._connection = Connection(server, "HOST")
        self._connection.connection_made(self._client)

    def send(self, request: Any, version: int, correlation_id: int = 1) -> None:
        self._connection.data_received(encode_request(request, version, correlation_id, "me"))

    def asked(self) -> None:
        """The cluster was asked about what was wanted."""
        for go_on in self.topics.waiting():
            go_on()
        self.turn()

    def turn(self) -> None:
        while self._server.soon:
            self._server.soon.pop(0)()

    def answered(self) -> list[int]:
        return self._client.answered()


ALL_KNOWN = [
    (commit(("a", A, 1)), 9),
    (commit(("a", A, 1)), BY_ID),
    (fetch(A), BY_ID),
    (fetch(B, "unknown"), 9),
    (delete("a", 1), 0),
    (heartbeat("a"), 1),
    (heartbeat(), 1),
]
LACKING = [
    (commit(("a", A, 0), ("b", B, 0)), 9, ["b"], []),
    (commit(("a", A, 0), ("b", B, 0)), BY_ID, [], [B]),
    (commit(("a", A, 2)), 9, ["a"], []),
    (commit(("a", A, 2)), BY_ID, ["a"], []),
    (fetch(B), BY_ID, [], [B]),
    (delete("b", 0), 0, ["b"], []),
    (delete("a", 2), 0, ["a"], []),
    (heartbeat("a", "b"), 1, ["b"], []),
]


@pytest.mark.parametrize(("request_", "version"), ALL_KNOWN)
async def test_what_names_known_partitions_alone_is_answered_at_once(request_: Any, version: int) -> None:
    way = Way()
    way.send(request_, version)
    assert way.answered() == [1]
    assert (way.topics.wanted(), way.topics.wanted_ids(), way.topics.waiting()) == ([], [], [])


@pytest.mark.parametrize(("request_", "version", "names", "ids"), LACKING)
async def test_what_names_another_waits_until_the_cluster_was_asked(
    request_: Any, version: int, names: list[str], ids: list[bytes]
) -> None:
    way = Way()
    way.send(request_, version)
    assert way.answered() == []
    assert (way.topics.wanted(), way.topics.wanted_ids()) == (names, ids)
    way.asked()
    assert way.answered() == [1]
    sent = decode(type(request_), version, encode(request_, version), 0)
    assert way.gone_on == [sent], "also where the cluster does not know it"


async def test_a_request_waits_no_longer_than_its_time_and_goes_on_once() -> None:
    way = Way(wait_s=0.0)
    way.send(commit(("b", B, 0)), 9)
    await asyncio.sleep(0.01)
    assert way.answered() == [1]
    way.asked()
    assert len(way.gone_on) == 1


async def test_what_was_committed_first_is_stored_first() -> None:
    way = Way()
    way.send(commit(("a", A, 0), ("b", B, 0)), 9, 1)
    way.send(commit(("a", A, 1)), 9, 2)
    way.turn()
    assert way.gone_on == []
    way.asked()
    assert way.answered() == [1, 2]
    way.send(commit(("a", A, 1)), 9, 3)
    assert way.answered() == [1, 2, 3]


async def test_a_deleted_topic_and_none_are_not_asked_about() -> None:
    way = Way()
    way.topics.learn_all(answer())
    for now_ms in (0, 30_000):
        way.topics.judge(unknown(A), now_ms)
    for number, topic_id in enumerate((A, bytes(16))):
        way.send(commit(("", topic_id, 0)), BY_ID, number)
    assert way.answered() == [0, 1]
