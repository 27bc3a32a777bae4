"""What Produce checks before it touches a log: who may write where, and the batch itself."""

from __future__ import annotations

from typing import Final

from coordinator.topics.broker import Pending
from coordinator.topics.names import is_internal
from coordinator.topics.refusal import Refused
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import TopicConfig
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest
from protocol.record_batch import Batch, CorruptBatch, parse_header
from protocol.record_validation import RefusedBatch, validate_produced

ACKS: Final = (-1, 0, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"  # Whose batches Kafka takes for internal topics, too.


def request_error(request: ProduceRequest) -> ErrorCode:
    """What is wrong with the request as a whole, and so with every partition of it."""
    if request.transactional_id is None and any(
        _is_transactional(data) for topic in request.topic_data for data in topic.partition_data
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _is_transactional(data: PartitionProduceData) -> bool:
    """Whether the first batch says so; what is no batch is refused later."""
    try:
        return parse_header(data.records or b"").is_transactional
    except CorruptBatch:
        return False


def checked_batch(
    data: PartitionProduceData, topic: Topic, request: ProduceRequest, pending: Pending, wall_ms: int
) -> Batch:
    """The header of the one batch in `data`, if that may be stored in `topic`. Raises Refused."""
    if request.acks not in ACKS:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if is_internal(topic.name) and pending.client_id != ADMIN_CLIENT_ID:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    batch = _validated(data, topic.config, pending.api_version, wall_ms)
    if batch.is_transactional:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    return batch


def _validated(data: PartitionProduceData, config: TopicConfig, api_version: int, wall_ms: int) -> Batch:
    bounds = {}
    if not config.is_log_append_time:  # Else the producer's timestamps do not matter.
        bounds = {
            "earliest_ms": wall_ms - config.timestamp_before_max_ms,
            "latest_ms": wall_ms + config.timestamp_after_max_ms,
        }
    try:
        return validate_produced(
            data.records,
            api_version=api_version,
            max_batch_bytes=config.max_message_bytes,
            keys_required=config.is_compacted,
            **bounds,
        )
    except RefusedBatch as refused:
        raise Refused(refused.error_code, refused.message, refused.record_errors) from None
