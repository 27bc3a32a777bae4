"""Short ways to write the requests that the tests send most."""

from __future__ import annotations

from typing import Any

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.topics.world import World


def produce_request(records: Any, topic: str = "t", partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


def produce(
    world: World,
    records: Any,
    topic: str = "t",
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
    **pending: Any,
) -> PartitionProduceResponse:
    """The answer for the one partition."""
    request = produce_request(records, topic, partition, acks)
    answer: ProduceResponse = world.ask(request, version, **pending)
    return answer.responses[0].partition_responses[0]


def fetch_request(
    *wanted: tuple[str, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    """`wanted` are (topic, partition, offset); neighbours of one topic are sent together."""
    topics: list[FetchTopic] = []
    for topic, partition, offset in wanted:
        if not topics or topics[-1].topic != topic:
            topics.append(FetchTopic(topic=topic, partitions=[]))
        asked = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        topics[-1].partitions.append(asked)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **fields
    )


def partitions_of(answer: FetchResponse) -> list[PartitionData]:
    return [partition for topic in answer.responses for partition in topic.partitions]


def fetch(
    world: World, topic: str = "t", partition: int = 0, offset: int = 0, **fields: Any
) -> PartitionData:
    """The answer for the one partition."""
    answer = world.ask(fetch_request((topic, partition, offset), **fields), 12)
    (only,) = partitions_of(answer)
    return only


def list_offset(
    world: World, timestamp: int, topic: str = "t", partition: int = 0, version: int = 11, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    """The answer for the one partition."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    answer: ListOffsetsResponse = world.ask(request, version)
    return answer.topics[0].partitions[0]
