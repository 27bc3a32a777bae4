"""Short ways to write, and to read, what the tests of whole daemons and of shards ask most."""

from __future__ import annotations

from typing import Any

from harness.wire import WireClient
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.topics.requests import produce_request
from tests.topics.world import batch

TOPIC, GROUP = "orders", "g"


def commit(offset: int, group_id: str = GROUP) -> OffsetCommitRequest:
    """For partition 0; version 8."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


def committed(answer: Any) -> int:
    """The error."""
    return int(answer.topics[0].partitions[0].error_code)


def fetch(group_id: str = GROUP) -> OffsetFetchRequest:
    """Of partition 0; version 8."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[topic])])


def fetched(answer: Any) -> int:
    """The offset, of a fetch that went well."""
    assert answer.groups[0].error_code == 0, answer
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def make_topic(client: WireClient, partitions: int = 1) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0


def produce(client: WireClient, partition: int = 0, value: bytes = b"v") -> int:
    """The error."""
    request = produce_request(batch(value), TOPIC, partition)
    return int(client.ask(request, 9).responses[0].partition_responses[0].error_code)


def is_served(bootstrap: str) -> bool:
    """Whether one connection more gets an answer."""
    client = one_more(bootstrap)
    if client is not None:
        client.close()
    return client is not None


def one_more(bootstrap: str) -> WireClient | None:
    """A client that is served, and stays; None if it was closed on."""
    client = WireClient(bootstrap)
    try:
        assert client.ask(DescribeClusterRequest(), 0).brokers
    except ConnectionError:
        client.close()
        return None
    return client
