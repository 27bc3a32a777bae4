"""DescribeTopicPartitions (key 75): topics in the order of their names, in pages (KIP-966).

The number of partitions on a page is limited; if there are more, a cursor says where the next page begins. An
unknown topic does not count.
"""

from __future__ import annotations

from typing import Final

from coordinator.admin.operations import TOPIC_OPERATIONS
from coordinator.data.broker import Broker, ClientRequest
from coordinator.security.acls import Operation, ResourceType
from coordinator.topics.leadership import described
from coordinator.topics.names import is_internal, missing_topic_error
from coordinator.topics.partition import Partition
from coordinator.topics.topic import Topic
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

MAX_PAGE_PARTITIONS: Final = 2000
"""Most partitions in one answer, whatever the request says (max.request.partition.size.limit)."""


def handle(broker: Broker, request: DescribeTopicPartitionsRequest, pending: ClientRequest) -> None:
    """Answer with one page of topics and their partitions.

    Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST, and behind the page
    TOPIC_AUTHORIZATION_FAILED for those that were named and that the client may not DESCRIBE.
    """
    names = _wanted_names(broker, request)
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)
    ):
        pending.reply(_malformed(request))
        return
    hidden = _hidden(names, pending, are_named=bool(request.topics))
    names -= hidden
    room = max(1, min(request.response_partition_limit, MAX_PAGE_PARTITIONS))
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic = broker.registry.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        page = topic.partitions[first : first + room]
        response.topics.append(_describe(broker, topic, page))
        room -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    response.topics += [_refused(name) for name in sorted(hidden) if request.topics]
    pending.reply(response)


def _hidden(names: set[str], pending: ClientRequest, *, are_named: bool) -> set[str]:
    """Return those that the client may not DESCRIBE; of what it did not name that is no denial (A21)."""
    if not pending.is_guarded:
        return set()
    if are_named:
        return {name for name in names if not pending.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}
    describes = pending.describes
    return set() if describes is None else {name for name in names if not describes(name)}


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _wanted_names(broker: Broker, request: DescribeTopicPartitionsRequest) -> set[str]:
    """Return the topics asked for (all, if none is named) that do not come before the cursor."""
    names = {asked.name for asked in request.topics} or {topic.name for topic in broker.registry.all()}
    begin = request.cursor.topic_name if request.cursor is not None else ""
    return {name for name in names if name >= begin}


def _malformed(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=asked.name)
            for asked in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=missing_topic_error(name),
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe(broker: Broker, topic: Topic, page: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            described(
                DescribeTopicPartitionsResponsePartition,
                partition,
                broker.placement,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for partition in page
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
