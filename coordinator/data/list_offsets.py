"""ListOffsets (key 2): the first and last offsets of partitions, and the first offset from a timestamp on.

First and last offsets are known in memory; timestamps are searched for in the log, which may wait for the disk, so
a reader thread answers requests with timestamps. Without tiered storage the local log start is the log start, and
requests for tiered offsets find nothing.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from typing import Final

import structlog

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.partition import LEADER_EPOCH, READ_COMMITTED, Partition, leader_epoch_error
from coordinator.topics.refusal import Countdown
from coordinator.topics.topic_lookup import TopicLookup
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.topic_partition import TopicPartition
from storage.files import StorageError

SPECIAL_SINCE: Final = {
    EARLIEST: 1,
    LATEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which each special timestamp is supported."""

LEADER_EPOCH_SINCE: Final = 4


log = structlog.get_logger("muster.topics")


def handle(broker: Broker, request: ListOffsetsRequest, pending: ClientRequest) -> None:
    """Answer with an offset per partition.

    Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (named twice), UNSUPPORTED_VERSION (a special
    timestamp that is newer than the version), UNKNOWN_LEADER_EPOCH, FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
    """
    topics, version = broker.registry, pending.api_version
    is_read_committed = request.isolation_level == READ_COMMITTED

    def work() -> ListOffsetsResponse:
        named = Counter(
            TopicPartition(topic.name, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
        )
        return ListOffsetsResponse(
            topics=[
                _topic_answer(topics, topic, named, version, is_read_committed) for topic in request.topics
            ]
        )

    def done(worked: Future[ListOffsetsResponse]) -> None:
        pending.reply(worked.result())

    def start() -> None:
        if any(needs_search(asked.timestamp) for topic in request.topics for asked in topic.partitions):
            broker.readers.submit(work, done)
        else:
            pending.reply(work())

    known = Countdown(start)
    for topic in request.topics if is_read_committed else ():
        for asked in topic.partitions:
            partition = topics.partition(topic.name, asked.partition_index)
            if partition is not None and partition.is_readable:
                known.begin()
                partition.when_producers_known(known.end)
    known.seal()


def needs_search(timestamp: int) -> bool:
    """Whether the log must be searched for this timestamp."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _topic_answer(
    topics: TopicLookup,
    topic: ListOffsetsTopic,
    named: Counter[TopicPartition],
    version: int,
    is_read_committed: bool,
) -> ListOffsetsTopicResponse:
    answers = []
    for asked in {each.partition_index: each for each in topic.partitions}.values():
        partition = topics.partition(topic.name, asked.partition_index)
        error = _error(asked, partition, named[TopicPartition(topic.name, asked.partition_index)], version)
        if error or partition is None:
            answers.append(
                ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
            )
        else:
            answers.append(_answer(asked, partition, version, is_read_committed))
    return ListOffsetsTopicResponse(name=topic.name, partitions=answers)


def _error(
    asked: ListOffsetsPartition, partition: Partition | None, times_named: int, version: int
) -> ErrorCode:
    if times_named > 1:
        return ErrorCode.INVALID_REQUEST
    if asked.timestamp < 0 and version < SPECIAL_SINCE.get(asked.timestamp, version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not partition.is_readable:
        return partition.read_error
    return leader_epoch_error(asked.current_leader_epoch)


def _answer(
    asked: ListOffsetsPartition, partition: Partition, version: int, is_read_committed: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    end_offset = partition.last_stable_offset if is_read_committed else partition.high_watermark
    if end_offset is None:  # The log could not be read, which has been logged.
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    try:
        found = find(partition, asked.timestamp, end_offset)
    except StorageError as error:
        log.error("offset search failed", topic=partition.topic, partition=partition.index, error=str(error))
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    if found is not None:
        answer.offset, answer.timestamp = found
        if version >= LEADER_EPOCH_SINCE:
            answer.leader_epoch = LEADER_EPOCH
    return answer


def find(partition: Partition, timestamp: int, end_offset: int) -> tuple[int, int] | None:
    """Return the (offset, timestamp) for `timestamp`; None if no record fits.

    For the special timestamps of the log's ends the timestamp returned is -1. A record that is found by its time
    counts only below `end_offset`.
    """
    if timestamp == LATEST:
        return end_offset, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log_start_offset, -1
    if timestamp < 0 and timestamp != MAX_TIMESTAMP:  # LATEST_TIERED, EARLIEST_PENDING_UPLOAD.
        return None
    by_time = partition.log.offset_for_timestamp
    found = partition.log.max_timestamp() if timestamp == MAX_TIMESTAMP else by_time(timestamp)
    return found if found is not None and found[0] < end_offset else None
