"""A prepared OffsetCommit: one member commits the same partitions again and again, with other offsets.

Consumers commit their partitions every few seconds, and only the offsets differ. So the records and the response
of a commit are encoded once, and later only the offsets are filled in. No check is
skipped: whether the member may commit, and whether the topics are the same, is looked up each time; if
not, the prepared commit is not current, and the request is decoded and handled like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.effects import CoordinatorRecord, PreparedCommitReceived, Reply, Result, new_tuple
from coordinator.groups.record_codec import encode_record
from coordinator.offsets.commit import (
    DEFAULT_RETENTION,
    CommitAnswers,
    commit_error,
    existing_partitions,
    new_commit_records,
    refresh_session,
)
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffsets
from coordinator.offsets.member_epochs import Committer, epoch_error
from coordinator.offsets.shard_offsets import ShardOffsets
from protocol.codec.primitives import ZERO_UUID
from protocol.codec.template import Template
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.records.run import NO_ATTRIBUTES, NO_HEADERS
from protocol.records.varint import VARINTS

NO_MORE_EFFECTS: Final = tuple(Result())[2:]
"""The effects of an event that only writes records and answers. Ready, since each commit is one such event."""


class PreparedRow(NamedTuple):
    """One partition of a prepared commit: everything but its offset."""

    topic: str
    partition: int
    leader_epoch: int
    metadata: str
    topic_id: bytes
    size_bytes: int  # Of key and value.
    record: Template  # Both, as in a batch: to be filled in with the offset and the time of the commit.


class PreparedCommit:
    """An OffsetCommit with everything but the offsets. Used with the shard that it was made for."""

    def __init__(
        self,
        shard: ShardOffsets,
        request: OffsetCommitRequest,
        api_version: int,
        rows: list[PreparedRow],
        response: OffsetCommitResponse,
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.response = EncodedResponse(response, api_version)  # The response when every offset is stored.
        self._groups, self._catalog = shard.groups, shard.topics
        self._consumer_groups, self._suspended = shard.consumers.groups, shard.consumers.suspended
        self._committer = Committer(request.member_id, request.generation_id_or_member_epoch, api_version)
        self._rows, self.count = rows, len(rows)  # The number of partitions.
        self._size_bytes = sum(row.size_bytes for row in rows)
        highest = {row.topic: (row.topic_id, row.partition) for row in sorted(rows, key=_by_partition)}
        self._topics = [(topic, *known) for topic, known in highest.items()]

    def is_current(self) -> bool:
        """Whether every offset of this commit would be stored if it came now."""
        if not self._is_allowed():
            return False
        catalog = self._catalog
        for topic, topic_id, partition in self._topics:
            count = catalog.partition_count(topic)
            if count is None or count <= partition or (catalog.topic_id(topic) or ZERO_UUID) != topic_id:
                return False
        return True

    def _is_allowed(self) -> bool:
        """Whether the member may commit; the group exists, so no commit makes it."""
        group_id = self.request.group_id
        group = self._groups.get(group_id)
        if group is not None:
            return commit_error(group, self.request, self.api_version) is ErrorCode.NONE
        consumer_group = self._consumer_groups.get(group_id)
        if consumer_group is None or group_id in self._suspended:
            return False
        partitions = ((row.topic_id, row.partition) for row in self._rows)
        return epoch_error(consumer_group, self._committer, partitions) is ErrorCode.NONE

    def handle(self, event: PreparedCommitReceived, now_ms: int) -> Result:
        """Store all the event's offsets and answer; moves the session deadline, as every commit does."""
        group = self._groups.get(self.request.group_id)
        if group is not None:
            refresh_session(group, self.request.member_id, now_ms)
        group_id, rows = self.request.group_id, self._rows
        offsets = PreparedOffsets(group_id, rows, event.offsets, event.wall_ms, self._size_bytes)
        reply = new_tuple(Reply, (event.reply_to, self.response, True))  # It reveals what is stored.
        return new_tuple(Result, ((offsets,), (reply,), *NO_MORE_EFFECTS))


class PreparedOffsets:
    """The records of one prepared commit, one for each partition, with its offset filled in; a `Run` of them."""

    __slots__ = ("_group_id", "_offsets", "_rows", "count", "size_bytes", "timestamp_ms")

    def __init__(
        self, group_id: str, rows: list[PreparedRow], offsets: Sequence[int], wall_ms: int, size_bytes: int
    ) -> None:
        """`wall_ms` is the time of the commit, and that of its records; `size_bytes` of all keys and values."""
        self._group_id = group_id
        self._rows, self._offsets = rows, offsets
        self.timestamp_ms = wall_ms
        self.count = len(rows)
        self.size_bytes = size_bytes

    def encode(self, first_delta: int, base_ms: int) -> bytes:
        """Return the records as a batch with base `base_ms` has them, with offset deltas from `first_delta` on."""
        wall_ms, delta = self.timestamp_ms, first_delta
        before = NO_ATTRIBUTES + VARINTS[wall_ms - base_ms]
        chunks: list[bytes] = []
        for row, offset in zip(self._rows, self._offsets, strict=True):
            body = before + VARINTS[delta] + row.record.fill((offset, wall_ms))
            chunks += (VARINTS[len(body)], body)
            delta += 1
        return b"".join(chunks)

    def apply(self, committed: CommittedOffsets, log_offset: int) -> None:
        """Replay the records into `committed`; the first of them is at `log_offset` of the log."""
        group_id, wall_ms = self._group_id, self.timestamp_ms
        for row, offset in zip(self._rows, self._offsets, strict=True):
            topic, partition, epoch, metadata, topic_id, _, _ = row
            fields = (offset, epoch, metadata, wall_ms, NO_EXPIRY, topic_id, log_offset)
            committed.put(group_id, topic, partition, fields)
            log_offset += 1


def prepare_commit(
    shard: ShardOffsets, request: OffsetCommitRequest, api_version: int
) -> PreparedCommit | None:
    """Return the prepared commit of `request`, or None where preparing it does not pay.

    That is where some partition is refused whatever the group's state, where many partitions
    are stored as a run, where there are none, and where an old client asks for a retention of its own.
    """
    if request.retention_time_ms != DEFAULT_RETENTION:
        return None
    answers = CommitAnswers(api_version)
    topics = existing_partitions(request, shard.topics, answers, api_version)
    rows = []
    for stored in new_commit_records(topics, answers, ErrorCode.NONE, request, shard.settings, wall_ms=0):
        if not isinstance(stored, CoordinatorRecord):
            return None
        rows.append(_row(stored))
    if not rows or len(rows) != sum(len(topic.partitions) for topic in request.topics):
        return None
    return PreparedCommit(shard, request, api_version, rows, answers.response())


def _row(record: CoordinatorRecord) -> PreparedRow:
    key, value = record.key, record.value
    assert value is not None, "a commit is no tombstone"
    zeros, ones = (
        encode_record(CoordinatorRecord(key, replace(value, offset=number, commit_timestamp=number)))
        for number in (0, -1)
    )
    assert zeros[1] is not None
    assert ones[1] is not None
    return PreparedRow(
        topic=key.topic,
        partition=key.partition,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        topic_id=bytes(value.topic_id),
        size_bytes=len(zeros[0]) + len(zeros[1]),
        record=Template(_behind_delta(zeros[0], zeros[1]), _behind_delta(ones[0], ones[1])),
    )


def _behind_delta(key: bytes, value: bytes) -> bytes:
    """Return what follows the offset delta of a record, which has no headers."""
    return b"".join((VARINTS[len(key)], key, VARINTS[len(value)], value, NO_HEADERS))


def _by_partition(row: PreparedRow) -> int:
    return row.partition
