"""DeleteRecords (key 21): delete the records below an offset (KIP-107).

The new log start is on the disk when the answer leaves, so deleted records do not come back with a restart. There
is one replica, so the answer waits for the disk alone.
"""

from __future__ import annotations

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.partition import Partition
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.registry import TopicRegistry
from protocol.errors import ErrorCode, OnDone
from protocol.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NOT_MOVED = -1  # The low watermark in an answer with an error.


def handle(broker: Broker, request: DeleteRecordsRequest, pending: ClientRequest) -> None:
    """Move the partitions' log starts; for a partition named twice the last offset counts, as in Kafka.

    Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (internal), POLICY_VIOLATION
    (only compacted), OFFSET_OUT_OF_RANGE (negative, or beyond the high watermark), KAFKA_STORAGE_ERROR.
    """
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(
            {each.partition_index: each.offset for each in topic.partitions}
        )
    response = DeleteRecordsResponse()
    countdown = Countdown(lambda: pending.reply(response))
    for name, offsets in wanted.items():
        answer = DeleteRecordsTopicResult(name=name)
        response.topics.append(answer)
        for index, offset in offsets.items():
            result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=NOT_MOVED)
            answer.partitions.append(result)
            try:
                partition = _checked(broker.registry, name, index, offset)
                _delete(broker.registry, partition, offset, result, countdown)
            except Refused as refused:
                result.error_code = refused.error
    countdown.seal()


def _checked(registry: TopicRegistry, name: str, index: int, offset: int) -> Partition:
    """Return the partition if its records below `offset` may be deleted. Raises Refused."""
    topic = registry.get(name)
    partition = None if topic is None else topic.partition(index)
    if topic is None or partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if topic.config.is_compacted and not topic.config.is_deleting:
        raise Refused(ErrorCode.POLICY_VIOLATION)
    if not partition.is_readable:
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    if not HIGH_WATERMARK <= offset <= partition.high_watermark:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    return partition


def _delete(
    registry: TopicRegistry,
    partition: Partition,
    offset: int,
    result: DeleteRecordsPartitionResult,
    countdown: Countdown,
) -> None:
    start = partition.high_watermark if offset == HIGH_WATERMARK else offset
    countdown.begin()
    registry.delete_records(partition, start, _on_deleted(partition, result, countdown))


def _on_deleted(partition: Partition, result: DeleteRecordsPartitionResult, countdown: Countdown) -> OnDone:
    def on_deleted(error: ErrorCode) -> None:
        result.error_code = error
        result.low_watermark = NOT_MOVED if error else partition.log_start_offset
        countdown.end()

    return on_deleted
