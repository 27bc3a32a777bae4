"""The checks of Produce before it touches a log: the client, the topic, and the batch itself."""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import ClientRequest
from coordinator.topics.names import is_internal
from coordinator.topics.refusal import Refused
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import TopicConfig
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest
from protocol.records.batch import NO_PRODUCER_ID, Batch, CorruptBatch, parse_header
from protocol.records.validation import ANY_TIME, NotOneBatch, RefusedBatch, TimeBounds, validate_produced

ACKS: Final = (-1, 0, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"  # Kafka takes batches of this client id for internal topics.


def has_transactional_records(request: ProduceRequest) -> bool:
    """Whether any batch of the request is part of a transaction."""
    return any(
        _transactional_producer(data) is not None
        for topic in request.topic_data
        for data in topic.partition_data
    )


def request_error(request: ProduceRequest) -> ErrorCode:
    """Return the error of the whole request, which is then that of each partition; NONE if there is none."""
    producers = {
        producer
        for topic in request.topic_data
        for data in topic.partition_data
        if (producer := _transactional_producer(data)) is not None
    }
    if producers and request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    has_several = len([each for each in producers if each[0] != NO_PRODUCER_ID]) > 1
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if has_several else ErrorCode.NONE


def _transactional_producer(data: PartitionProduceData) -> tuple[int, int] | None:
    """Return the producer id and epoch of the first batch, if it is transactional; None otherwise.

    Bytes that are not a batch give None as well: they are refused later.
    """
    try:
        batch = parse_header(data.records or b"")
    except CorruptBatch:
        return None
    return (batch.producer_id, batch.producer_epoch) if batch.is_transactional else None


def checked_batch(
    data: PartitionProduceData, topic: Topic, request: ProduceRequest, pending: ClientRequest, wall_ms: int
) -> Batch:
    """Return the header of the one batch in `data`, if it may be stored in `topic`. Raises Refused."""
    if request.acks not in ACKS:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if is_internal(topic.name) and pending.client_id != ADMIN_CLIENT_ID:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    return _validated(data, topic.config, pending.api_version, wall_ms)


def _validated(data: PartitionProduceData, config: TopicConfig, api_version: int, wall_ms: int) -> Batch:
    times = ANY_TIME
    if not config.is_log_append_time:  # With LogAppendTime the producer's timestamps do not matter.
        times = TimeBounds(wall_ms - config.timestamp_before_max_ms, wall_ms + config.timestamp_after_max_ms)
    try:
        return validate_produced(
            data.records,
            api_version=api_version,
            max_batch_bytes=config.max_message_bytes,
            keys_required=config.is_compacted,
            times=times,
        )
    except RefusedBatch as refused:
        has_seen_log = not isinstance(refused, NotOneBatch)
        raise Refused(
            refused.error_code, refused.message, refused.record_errors, has_seen_log=has_seen_log
        ) from None
