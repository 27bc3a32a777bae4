"""The reading half of Fetch: from partitions and offsets to record batches and errors, within byte limits.

The bytes themselves are not read here: what is found is a range of a segment's file, which the connection
reads as its peer takes it. A `FetchRead` begins on the event loop, as long as all it has to look at is in
memory; the rest, if any, is found on a thread that may wait for the disk. Limits are Kafka's: the first
partition that has anything gives at least one batch, however large; after it, whole batches within the
request's and the partition's limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import structlog

from coordinator.data.fetch_sessions import Answers, WantedPartition
from coordinator.topics.partition import LEADER_EPOCH, Partition
from coordinator.topics.topic_lookup import TopicLookup
from protocol.codec.primitives import Buffer
from protocol.errors import ErrorCode
from protocol.messages.fetch import DivergingEpoch, FetchAbortedTransaction, PartitionData
from storage.files import StorageError
from storage.log.file_range import FileRange
from storage.log.log_reader import OffsetOutOfRange
from storage.log.segment_read import WouldBlock, end_offset_of

INLINE_FINDS: Final = 64
"""Partitions whose batches are looked up on the event loop per fetch, some 20 us each. The rest is a thread's."""

UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The errors of what cannot be read at all, in the order in which Kafka answers them behind all others."""

log = structlog.get_logger("muster.topics")


@dataclass(frozen=True, slots=True)
class Target:
    """A wanted partition with the partition that was found, or the error that there is none."""

    wanted: WantedPartition
    partition: Partition | None
    error: ErrorCode

    @property
    def is_unknown(self) -> bool:
        """Whether there is nothing to read: such targets are answered last, and do not end the wait of a fetch."""
        return self.error in UNKNOWN

    @property
    def is_unchanged_for_session(self) -> bool:
        """Whether the client of a session has been sent all there is: most of many are, and are passed over."""
        wanted, partition = self.wanted, self.partition
        return (
            partition is not None
            and wanted.fetch_offset == wanted.sent_high_watermark == partition.high_watermark
            and wanted.sent_log_start_offset == partition.log_start_offset
            and wanted.current_leader_epoch <= LEADER_EPOCH >= wanted.last_fetched_epoch
            and partition.is_readable
        )


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits that one fetch sets for its answer as a whole."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    is_read_committed: bool


def resolve(topics: TopicLookup, wanted: WantedPartition, by_id: bool) -> Target:
    """Find the partition. Errors: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID.

    A session remembers the name that an id stood for: of a topic that is gone since it is the name that is
    unknown, and where there is another one of that name, the id is wrong.
    """
    topic = topics.by_id(wanted.topic_id) if by_id else topics.get(wanted.topic)
    if by_id and topic is not None:
        wanted.known_name = topic.name
    elif by_id and wanted.known_name is None:
        return Target(wanted, None, ErrorCode.UNKNOWN_TOPIC_ID)
    elif by_id and (successor := topics.get(wanted.known_name or "")) and successor.partition(wanted.index):
        return Target(wanted, None, ErrorCode.INCONSISTENT_TOPIC_ID)
    partition = None if topic is None else topic.partition(wanted.index)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.NONE
    return Target(wanted, partition, error)


class FetchRead:
    """One pass over the targets of a fetch, which may begin on the event loop and end on a thread."""

    def __init__(self, targets: Sequence[Target], limits: FetchLimits) -> None:
        self.answers: Answers = []
        self.bytes_read = 0
        self.has_error = False
        self._finds = 0
        self._next = 0
        known = [target for target in targets if not target.is_unknown]
        self._targets = known + [each for error in UNKNOWN for each in targets if each.error is error]
        self._limits = limits

    def read_warm(self) -> bool:
        """Find what is in memory, in order and up to INLINE_FINDS; return whether that was all."""
        try:
            while self._next < len(self._targets):
                if self._finds >= INLINE_FINDS:
                    return False
                self._read_next(may_wait=False)
        except WouldBlock:
            return False
        return True

    def read_rest(self) -> None:
        """Find all that is left, waiting for the disk where need be."""
        while self._next < len(self._targets):
            self._read_next(may_wait=True)

    def _read_next(self, may_wait: bool) -> None:
        target = self._targets[self._next]
        if not target.is_unchanged_for_session:
            left_bytes = self._limits.max_bytes - self.bytes_read
            if self._next:
                left_bytes = max(0, left_bytes)
            self._take(target, _read(target, left_bytes, self.bytes_read == 0, self._limits, may_wait))
        self._next += 1

    def _take(self, target: Target, answer: PartitionData) -> None:
        self.answers.append((target.wanted, answer))
        if answer.records:
            self.bytes_read += len(answer.records)
            self._finds += 1
        if not target.is_unknown:
            self.has_error |= answer.error_code != 0 or answer.diverging_epoch.epoch >= 0


def _read(
    target: Target, left_bytes: int, at_least_one: bool, limits: FetchLimits, may_wait: bool
) -> PartitionData:
    wanted, partition = target.wanted, target.partition
    if partition is None:
        return _refused(wanted, target.error, aborted_transactions=[] if target.is_unknown else None)
    if wanted.current_leader_epoch > LEADER_EPOCH:
        return _refused(wanted, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if wanted.last_fetched_epoch > LEADER_EPOCH:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    if not partition.is_readable:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    stable_offset = partition.last_stable_offset
    if limits.is_read_committed and stable_offset is None:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    end = partition.log.next_offset
    if wanted.last_fetched_epoch == LEADER_EPOCH and wanted.fetch_offset > end:
        return _good(
            partition, None, stable_offset, limits, DivergingEpoch(epoch=LEADER_EPOCH, end_offset=end)
        )
    up_to = stable_offset if limits.is_read_committed else None
    try:
        max_bytes = min(left_bytes, wanted.max_bytes)
        records = _records(partition, wanted, max_bytes, at_least_one, up_to, may_wait)
    except OffsetOutOfRange:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    except StorageError as error:
        log.error("fetch failed", topic=partition.topic, partition=partition.index, error=str(error))
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if records and max_bytes < 0:
        return _refused(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)  # As Kafka, if there are records.
    answer = _good(partition, records, stable_offset, limits, DivergingEpoch())
    if limits.is_read_committed and records:
        answer.aborted_transactions = _aborted(partition, wanted.fetch_offset, records, may_wait)
    return answer


def _records(
    partition: Partition,
    wanted: WantedPartition,
    max_bytes: int,
    at_least_one: bool,
    up_to: int | None,
    may_wait: bool,
) -> FileRange | None:
    """The whole batches from the wanted offset on. Raises WouldBlock, unless it may wait."""
    find = partition.log.find if may_wait else partition.log.find_nowait
    return find(wanted.fetch_offset, max(max_bytes, 0), at_least_one=at_least_one, up_to=up_to)


def _aborted(
    partition: Partition, start_offset: int, records: FileRange, may_wait: bool
) -> list[FetchAbortedTransaction]:
    """Transactions that the client must leave out of `records`, which begin with the batch of `start_offset`."""
    if not partition.log.producers.aborted(start_offset, partition.log.next_offset):
        return []  # As a rule: then the end of the records need not be found.
    end_offset = end_offset_of(records, may_wait)
    return [
        FetchAbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in partition.log.producers.aborted(start_offset, end_offset)
    ]


def _refused(
    wanted: WantedPartition,
    error: ErrorCode,
    aborted_transactions: list[FetchAbortedTransaction] | None = None,
) -> PartitionData:
    return PartitionData(
        partition_index=wanted.index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=aborted_transactions,
        records=b"",
    )


def _good(
    partition: Partition,
    records: FileRange | None,
    stable_offset: int | None,
    limits: FetchLimits,
    diverging: DivergingEpoch,
) -> PartitionData:
    """An answer without an error; its last stable offset is -1 while the open transactions are not known."""
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=-1 if stable_offset is None else stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=[] if limits.is_read_committed else None,
        diverging_epoch=diverging,
        records=cast(Buffer, records or b""),  # All that the codec asks of records is their length.
    )
