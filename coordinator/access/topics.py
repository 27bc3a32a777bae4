"""The checks of the APIs of records and topics' metadata: Produce, Fetch, ListOffsets, Metadata and their like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.access.asker import Asker
from coordinator.access.refusals import words_of
from coordinator.access.verdict import Verdict, interleaved, passes
from coordinator.security.acls import Operation, ResourceType
from coordinator.topics.names import is_internal, name_problem
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    PartitionResponse,
    TopicResponse,
)
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

METADATA_BY_ID_SINCE: Final = 12
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


# Offsets and records.


def check_list_offsets(request: ListOffsetsRequest, asker: Asker) -> Verdict:
    """ListOffsets: DESCRIBE of each topic; those refused come last."""
    denied = asker.denied_topics(Operation.DESCRIBE, (topic.name for topic in request.topics))
    if not denied:
        return passes(request)
    rows = [_no_offsets(topic) for topic in request.topics if topic.name in denied]
    allowed = ListOffsetsRequest(
        replica_id=request.replica_id,
        isolation_level=request.isolation_level,
        topics=[topic for topic in request.topics if topic.name not in denied],
        timeout_ms=request.timeout_ms,
    )
    return Verdict(allowed, complete=lambda response: ListOffsetsResponse(topics=[*response.topics, *rows]))


def _no_offsets(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=DENIED)
            for each in topic.partitions
        ],
    )


def check_leader_epochs(request: OffsetForLeaderEpochRequest, asker: Asker) -> Verdict:
    """OffsetForLeaderEpoch: CLUSTER_ACTION, or DESCRIBE of each topic; those refused come last."""
    if asker.permits_cluster(Operation.CLUSTER_ACTION):
        return passes(request)
    denied = asker.denied_topics(Operation.DESCRIBE, (topic.topic for topic in request.topics))
    if not denied:
        return passes(request)
    rows = [_no_epochs(topic) for topic in request.topics if topic.topic in denied]
    allowed = OffsetForLeaderEpochRequest(
        replica_id=request.replica_id,
        topics=[topic for topic in request.topics if topic.topic not in denied],
    )
    return Verdict(
        allowed, complete=lambda response: OffsetForLeaderEpochResponse(topics=[*response.topics, *rows])
    )


def _no_epochs(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[EpochEndOffset(partition=each.partition, error_code=DENIED) for each in topic.partitions],
    )


def check_delete_records(request: DeleteRecordsRequest, asker: Asker) -> Verdict:
    """DeleteRecords: DELETE of each topic."""
    denied = asker.denied_topics(Operation.DELETE, (topic.name for topic in request.topics))
    if not denied:
        return passes(request)

    def complete(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
        answers = {topic.name: topic for topic in response.topics}
        names = dict.fromkeys(topic.name for topic in request.topics)
        rows = [answers.get(name) or _not_deleted(name, request) for name in names]
        return DeleteRecordsResponse(topics=rows)

    allowed = [topic for topic in request.topics if topic.name not in denied]
    return Verdict(DeleteRecordsRequest(topics=allowed, timeout_ms=request.timeout_ms), complete=complete)


def _not_deleted(name: str, request: DeleteRecordsRequest) -> DeleteRecordsTopicResult:
    indexes = dict.fromkeys(
        each.partition_index for topic in request.topics if topic.name == name for each in topic.partitions
    )
    return DeleteRecordsTopicResult(
        name=name,
        partitions=[
            DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=DENIED)
            for index in indexes
        ],
    )


def check_describe_producers(request: DescribeProducersRequest, asker: Asker) -> Verdict:
    """DescribeProducers: that the name is valid, then READ of each topic."""
    denied = {
        topic.name
        for topic in request.topics
        if name_problem(topic.name) is None and not asker.may_topic(Operation.READ, topic.name)
    }
    if not denied:
        return passes(request)

    def complete(response: DescribeProducersResponse) -> DescribeProducersResponse:
        rows = interleaved(request.topics, lambda topic: _no_producers(topic, denied), response.topics)
        return DescribeProducersResponse(topics=list(rows))

    allowed = [topic for topic in request.topics if topic.name not in denied]
    return Verdict(DescribeProducersRequest(topics=allowed), complete=complete)


def _no_producers(topic: DescribeProducersTopicRequest, denied: set[str]) -> TopicResponse | None:
    if topic.name not in denied:
        return None
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(partition_index=index, error_code=DENIED, error_message=words_of(DENIED))
            for index in topic.partition_indexes
        ],
    )


# What topics there are.


def check_metadata(request: MetadataRequest, asker: Asker) -> Verdict:
    """Metadata: DESCRIBE of each topic, CREATE of those that would be made; of all topics others are left out.

    By id what is refused has no name, by name no id. Those refused come last, whether they exist or not.
    """
    asked = request.topics
    if asked is None or (not asked and asker.version == 0):
        return _completed(request, request, (), asker, is_all=True)
    if asker.version < METADATA_BY_ID_SINCE and any(_is_by_id(topic) for topic in asked):
        return passes(request)  # Malformed: nothing is looked up.
    if any(topic.topic_id != ZERO_UUID for topic in asked):
        return _check_metadata_by_id(request, asked, asker)
    names = list(dict.fromkeys(topic.name or "" for topic in asked))
    hidden = asker.denied_topics(Operation.DESCRIBE, names)
    not_made = _not_to_be_made(request, [name for name in names if name not in hidden], asker)
    if not hidden and not not_made:
        return _completed(request, request, (), asker)
    rows = [
        MetadataResponseTopic(error_code=DENIED, name=name, is_internal=is_internal(name))
        for name in names
        if name in not_made
    ]
    rows += [MetadataResponseTopic(error_code=DENIED, name=name) for name in names if name in hidden]
    refused_names = hidden | not_made
    kept = [topic for topic in asked if (topic.name or "") not in refused_names]
    return _completed(request, _metadata_of(request, kept), rows, asker)


def _is_by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _not_to_be_made(request: MetadataRequest, names: list[str], asker: Asker) -> set[str]:
    """Those of `names` that the request would have made, without the right to CREATE them (A25)."""
    if not request.allow_auto_topic_creation or not asker.facts.creates_topics:
        return set()
    absent = [name for name in names if asker.topics.topic_id(name) is None]
    if not absent or asker.permits_cluster(Operation.CREATE):
        return set()
    return asker.denied_topics(Operation.CREATE, absent)


def _check_metadata_by_id(
    request: MetadataRequest, asked: list[MetadataRequestTopic], asker: Asker
) -> Verdict:
    names = {topic.topic_id: asker.name_of(topic.topic_id) for topic in asked}
    known = [name for name in names.values() if name is not None]
    denied = asker.denied_topics(Operation.DESCRIBE, known)
    if not denied:
        return _completed(request, request, (), asker)
    rows = [
        MetadataResponseTopic(error_code=DENIED, name=None, topic_id=topic_id)
        for topic_id, name in names.items()
        if name in denied
    ]
    kept = [topic for topic in asked if topic.topic_id != ZERO_UUID and names[topic.topic_id] not in denied]
    return _completed(request, _metadata_of(request, kept), rows, asker)


def _metadata_of(request: MetadataRequest, topics: list[MetadataRequestTopic]) -> MetadataRequest:
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=request.allow_auto_topic_creation,
        include_cluster_authorized_operations=request.include_cluster_authorized_operations,
        include_topic_authorized_operations=request.include_topic_authorized_operations,
    )


def _completed(
    request: MetadataRequest,
    allowed: MetadataRequest,
    rows: Iterable[MetadataResponseTopic],
    asker: Asker,
    *,
    is_all: bool = False,
) -> Verdict:
    """Have the answer to `allowed` be that to `request`: with `rows`, or of all topics those that may be seen."""
    of_topics = request.include_topic_authorized_operations
    of_cluster = request.include_cluster_authorized_operations
    if allowed is request and not (is_all or of_topics or of_cluster):
        return passes(request)

    def complete(response: MetadataResponse) -> MetadataResponse:
        if is_all:
            response.topics = [topic for topic in response.topics if asker.describes(topic.name or "")]
        elif not allowed.topics:
            response.topics = []  # In version 0 the handler has taken none for all.
        for topic in response.topics if of_topics else ():
            if topic.name is not None:
                topic.topic_authorized_operations = asker.operations(ResourceType.TOPIC, topic.name)
        response.topics = [*response.topics, *rows]
        if of_cluster:
            response.cluster_authorized_operations = asker.cluster_operations()
        return response

    return Verdict(allowed, complete_part=complete)


def check_describe_topic_partitions(request: DescribeTopicPartitionsRequest, asker: Asker) -> Verdict:
    """DescribeTopicPartitions: the handler asks for DESCRIBE, as what is left out does not count for a page."""

    def complete(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.error_code not in (DENIED, ErrorCode.INVALID_REQUEST):
                topic.topic_authorized_operations = asker.operations(ResourceType.TOPIC, topic.name or "")
        return response

    return Verdict(request, complete_part=complete, asks=True)
