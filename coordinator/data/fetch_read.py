"""The reading half of Fetch: from partitions and offsets to record batches and errors, within byte limits.

The records themselves are not read here: the result is a range of a segment's file, which the connection reads
as its peer takes it. A `FetchRead` begins on the event loop, as long as the indexes it needs are in memory; the
rest, if any, is looked up on a thread that may wait for the disk. Limits are Kafka's: the first partition that
has records gives at least one batch, however large; after it, whole batches within the request's and the
partition's limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
"""Partitions per fetch that are looked up on the event loop, some 20 us each; a thread looks up the rest."""

NOT_READ: Final = {
    ErrorCode.UNKNOWN_TOPIC_ID: 0,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1,
}
"""Errors that are found before any log is looked at: Kafka answers them after all others, in this order."""

log = structlog.get_logger("muster.topics")


@dataclass(frozen=True, slots=True)
class Target:
    """A wanted partition, with the partition that was found, or with None and the error that says why."""

    wanted: WantedPartition
    partition: Partition | None
    error: ErrorCode

    @property
    def is_not_read(self) -> bool:
        """Whether there is no such partition, or the client may not read it.

        Such targets are answered last, and do not end a fetch's wait.
        """
        return self.error in NOT_READ

    @property
    def is_unchanged_for_session(self) -> bool:
        """Whether the session's client has been sent everything: then this partition need not be read."""
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


def resolve(
    topics: TopicLookup,
    wanted: WantedPartition,
    by_id: bool,
    may_read: Callable[[str], bool] | None = None,
) -> Target:
    """Return the target for a wanted partition, named by topic id or by topic name.

    `may_read` says whether the client may read the topic of a name; None: all.

    Errors: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID. A
    session remembers the name that a topic id stood for. If that topic is gone, the error is
    UNKNOWN_TOPIC_OR_PARTITION; if another topic has its name by now, INCONSISTENT_TOPIC_ID.
    """
    topic = topics.by_id(wanted.topic_id) if by_id else topics.get(wanted.topic)
    if by_id and topic is not None:
        wanted.known_name = topic.name
    elif by_id and wanted.known_name is None:
        return Target(wanted, None, ErrorCode.UNKNOWN_TOPIC_ID)
    if may_read is not None and not may_read(wanted.known_name or "" if by_id else wanted.topic):
        return Target(wanted, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if (
        topic is None
        and by_id
        and (successor := topics.get(wanted.known_name or ""))
        and successor.partition(wanted.index)
    ):
        return Target(wanted, None, ErrorCode.INCONSISTENT_TOPIC_ID)
    partition = None if topic is None else topic.partition(wanted.index)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.NONE
    return Target(wanted, partition, error)


class FetchRead:
    """One read of all targets of a fetch, which may begin on the event loop and end on a thread."""

    def __init__(self, targets: Sequence[Target], limits: FetchLimits) -> None:
        self.answers: Answers = []
        self.bytes_read = 0
        self.has_error = False
        self._finds = 0
        self._next = 0
        self._targets = sorted(targets, key=lambda target: NOT_READ.get(target.error, -1))
        self._limits = limits

    def read_warm(self) -> bool:
        """Look up targets, up to INLINE_FINDS and while no disk is needed; return whether that was all of them."""
        try:
            while self._next < len(self._targets):
                if self._finds >= INLINE_FINDS:
                    return False
                self._read_next(may_wait=False)
        except WouldBlock:
            return False
        return True

    def read_rest(self) -> None:
        """Look up all remaining targets, waiting for the disk where necessary; runs on a thread."""
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
        if not target.is_not_read:
            self.has_error |= answer.error_code != 0 or answer.diverging_epoch.epoch >= 0


def _read(
    target: Target, left_bytes: int, at_least_one: bool, limits: FetchLimits, may_wait: bool
) -> PartitionData:
    wanted, partition = target.wanted, target.partition
    if partition is None:
        return _failure(wanted, target.error, aborted_transactions=[] if target.is_not_read else None)
    if wanted.current_leader_epoch > LEADER_EPOCH:
        return _failure(wanted, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if wanted.last_fetched_epoch > LEADER_EPOCH:
        return _failure(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    if not partition.is_readable:
        return _failure(wanted, partition.read_error)
    stable_offset = partition.last_stable_offset
    if limits.is_read_committed and stable_offset is None:
        return _failure(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    end = partition.log.next_offset
    if wanted.last_fetched_epoch == LEADER_EPOCH and wanted.fetch_offset > end:
        return _success(
            partition, None, stable_offset, limits, DivergingEpoch(epoch=LEADER_EPOCH, end_offset=end)
        )
    up_to = stable_offset if limits.is_read_committed else None
    try:
        max_bytes = min(left_bytes, wanted.max_bytes)
        records = _records(partition, wanted, max_bytes, at_least_one, up_to, may_wait)
    except OffsetOutOfRange:
        return _failure(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    except StorageError as error:
        log.error("fetch failed", topic=partition.topic, partition=partition.index, error=str(error))
        return _failure(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if records and max_bytes < 0:
        return _failure(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)  # As in Kafka, if there are records.
    answer = _success(partition, records, stable_offset, limits, DivergingEpoch())
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
    """Return the file range of whole batches from the wanted offset on. Raises WouldBlock, unless `may_wait`."""
    find = partition.log.find if may_wait else partition.log.find_nowait
    return find(wanted.fetch_offset, max(max_bytes, 0), at_least_one=at_least_one, up_to=up_to)


def _aborted(
    partition: Partition, start_offset: int, records: FileRange, may_wait: bool
) -> list[FetchAbortedTransaction]:
    """Return the aborted transactions in `records`, which begin with the batch of `start_offset`."""
    if not partition.log.producers.aborted(start_offset, partition.log.next_offset):
        return []  # The usual case: the end of the records need not be found.
    end_offset = end_offset_of(records, may_wait)
    return [
        FetchAbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in partition.log.producers.aborted(start_offset, end_offset)
    ]


def _failure(
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


def _success(
    partition: Partition,
    records: FileRange | None,
    stable_offset: int | None,
    limits: FetchLimits,
    diverging: DivergingEpoch,
) -> PartitionData:
    """Return an answer without an error; its last stable offset is -1 while open transactions are not known."""
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=-1 if stable_offset is None else stable_offset,
        log_start_offset=partition.log_start_offset,
        aborted_transactions=[] if limits.is_read_committed else None,
        diverging_epoch=diverging,
        records=cast(Buffer, records or b""),  # The codec uses only the length of records.
    )
