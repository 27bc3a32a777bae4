"""A commit that comes again: the same member, the same partitions, and other offsets.

Consumers commit what they own every few seconds, and nothing but the offsets differs. So what a commit leads to -
keys and values of the log, the places of its offsets - is made once, and after that only filled in. Nothing is
believed for that: whether the member may commit, and whether the topics are the same, is asked each time; if it
is not so the commit goes the long way, which knows what to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from coordinator.effects import CommitRun, Record
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import encode_record
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.commit import (
    DEFAULT_RETENTION,
    CommitAnswers,
    commit_error,
    existing_partitions,
    refresh_session,
    store,
)
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffsets
from coordinator.offsets.topic_offsets import CommittedOffset, new_tuple
from coordinator.topic_catalog import TopicCatalog
from protocol.codec.primitives import ZERO_UUID
from protocol.codec.template import Template
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.records.records import Record as LogRecord


class Row(NamedTuple):
    """One partition of the commit: all that is known of it but its offset."""

    topic: str
    partition: int
    leader_epoch: int
    metadata: str
    topic_id: bytes
    key: bytes
    value: Template  # Of the offset, and of the time of the commit.


class Recommit:
    """A request of which all but the offsets is known. Used with the shard that it was made for, as it lives."""

    def __init__(
        self,
        groups: dict[str, Group],
        offsets: CommittedOffsets,
        catalog: TopicCatalog,
        request: OffsetCommitRequest,
        api_version: int,
        rows: list[Row],
        response: OffsetCommitResponse,
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.response = response  # When all of it is stored.
        self._groups = groups
        self._offsets = offsets
        self._catalog = catalog
        self._rows = rows
        highest = {row.topic: (row.topic_id, row.partition) for row in sorted(rows, key=_by_partition)}
        self._topics = [(topic, *known) for topic, known in highest.items()]

    def may_be_stored(self, now_ms: int) -> bool:
        """Whether all of it would be stored if it came now; then the member is alive, as after any commit."""
        group = self._groups.get(self.request.group_id)
        if group is None or commit_error(group, self.request, self.api_version) is not ErrorCode.NONE:
            return False
        catalog = self._catalog
        for topic, topic_id, partition in self._topics:
            count = catalog.partition_count(topic)
            if count is None or count <= partition or (catalog.topic_id(topic) or ZERO_UUID) != topic_id:
                return False
        refresh_session(group, self.request.member_id, now_ms)
        return True

    def records(self, offsets: Sequence[int], wall_ms: int) -> list[LogRecord]:
        """What is written to the log for these offsets, one for each partition of the request."""
        return [
            LogRecord(row.key, row.value.fill((offset, wall_ms)), wall_ms)
            for row, offset in zip(self._rows, offsets, strict=True)
        ]

    def replay(self, offsets: Sequence[int], wall_ms: int, log_offset: int) -> None:
        """Take in those records, the first of which is at `log_offset`: as `Shard.replay` of each of them."""
        group_id = self.request.group_id
        for row, offset in zip(self._rows, offsets, strict=True):
            known = (offset, row.leader_epoch, row.metadata, wall_ms, NO_EXPIRY, row.topic_id, log_offset)
            committed = new_tuple(CommittedOffset, known)
            self._offsets.put(group_id, row.topic, row.partition, committed)
            log_offset += 1


def recommit_of(
    groups: dict[str, Group],
    offsets: CommittedOffsets,
    catalog: TopicCatalog,
    settings: GroupSettings,
    request: OffsetCommitRequest,
    api_version: int,
) -> Recommit | None:
    """What is left of `request` without its offsets.

    None where that is not worth it: where some of it is refused whatever the group says, where many partitions
    are stored by columns, and where an old client asks for a retention of its own.
    """
    if request.retention_time_ms != DEFAULT_RETENTION:
        return None
    answers = CommitAnswers(api_version)
    topics = existing_partitions(request, catalog, answers, api_version)
    rows = []
    for stored in store(topics, answers, ErrorCode.NONE, request, settings, wall_ms=0):
        if isinstance(stored, CommitRun):
            return None
        rows.append(_row(stored))
    if len(rows) != sum(len(topic.partitions) for topic in request.topics):
        return None
    return Recommit(groups, offsets, catalog, request, api_version, rows, answers.response())


def _row(record: Record) -> Row:
    key, value = record.key, record.value
    assert value is not None, "a commit is no tombstone"
    zeros, ones = (
        encode_record(Record(key, replace(value, offset=number, commit_timestamp=number)))
        for number in (0, -1)
    )
    assert zeros[1] is not None
    assert ones[1] is not None
    return Row(
        topic=key.topic,
        partition=key.partition,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        topic_id=bytes(value.topic_id),
        key=zeros[0],
        value=Template(zeros[1], ones[1]),
    )


def _by_partition(row: Row) -> int:
    return row.partition
