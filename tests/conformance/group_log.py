"""What a broker writes about a group: its records, fetched from `__consumer_offsets` as any client may fetch them.

Steps are told apart by a mark, an offset that is committed in another group of the same partition: what stands
before it in the log was written before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import count
from typing import Any, Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from harness.kafka_broker import SMALL
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.batch import walk
from protocol.records.records import Record, iter_records
from tests.conformance.actors import TOPIC
from tests.conformance.run import Run
from tests.conformance.topic_scenes import quietly
from tests.topics.requests import fetch_request, partitions_of

PARTITIONS: Final = int(SMALL["offsets.topic.num.partitions"])
CLOCKS: Final = ("assignment_timestamp", "timestamp", "current_state_timestamp", "version")
"""Fields that are each broker's own: what is compared is whether there is a number."""
HASH: Final = "metadata_hash"
"""Topics' ids are in it, so it is each broker's own as well."""
FETCHES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Logged:
    """A record as it was read."""

    base_offset: int
    """The first offset of its batch."""
    record: CoordinatorRecord
    value_bytes: int | None


@dataclass(frozen=True, slots=True)
class Written:
    """A record as it is compared; `value` is None for a tombstone.

    What a reader makes of a field that is missing is the reader's own, so lengths are compared, too.
    """

    type: int
    key: Any
    value: Any
    value_bytes: int | None


@dataclass
class GroupLog:
    """The records of `group`, from a moment on."""

    run: Run
    group: str
    next_offset: int
    marker: str
    marks: Iterator[int] = field(default_factory=lambda: count(1))
    hashes: list[int] = field(default_factory=list)
    """Those of the epochs seen so far, as they were written."""
    _unread: deque[Logged] = field(default_factory=deque)

    @classmethod
    async def of(cls, run: Run, group: str | None = None) -> GroupLog:
        """The log of the run's group, or of another, behind what there is now."""
        name = run.group if group is None else group
        partition = partition_for(name, PARTITIONS)
        names = (f"{name}-mark-{number}" for number in count())
        marker = next(each for each in names if partition_for(each, PARTITIONS) == partition)
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        topics = [ListOffsetsTopic(name=run.offsets_topic, partitions=[asked])]
        (topic,) = (await quietly(run, ListOffsetsRequest(topics=topics), 5)).topics
        return cls(run, name, topic.partitions[0].offset, marker)

    async def written(self, note: str, *, at_once: bool = True) -> list[Written]:
        """Enter what was written since the last time into the transcript, and return it.

        It is promised to be one batch, unless it was not written `at_once`.
        """
        logged = await self.logged()
        batches = {each.base_offset for each in logged}
        found = [self._comparable(each) for each in logged]
        self.run.saw(f"records ({note})", found)
        self.run.expect(not at_once or len(batches) <= 1, f"{note}: {len(batches)} batches")
        return found

    async def logged(self) -> list[Logged]:
        """What was written since the last time, kept out of the transcript."""
        mark = next(self.marks)
        await self._commit(mark)
        found: list[Logged] = []
        while not _is_mark((logged := await self._next()).record, self.marker, mark):
            key = logged.record.key
            if getattr(key, "group_id", getattr(key, "group", None)) == self.group:
                found.append(logged)
        return found

    async def _next(self) -> Logged:
        for _ in range(FETCHES_MAX):
            if self._unread:
                return self._unread.popleft()
            await self._fetch()
        raise TimeoutError(f"the mark of {self.group} did not show up")

    async def _commit(self, mark: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=mark)
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        reply = await quietly(self.run, OffsetCommitRequest(group_id=self.marker, topics=topics), 8)
        assert reply.topics[0].partitions[0].error_code == 0

    async def _fetch(self) -> None:
        wanted = (self.run.offsets_topic, partition_for(self.group, PARTITIONS), self.next_offset)
        (answer,) = partitions_of(await quietly(self.run, fetch_request(wanted, max_wait_ms=500), 12))
        assert answer.error_code == 0, answer
        data = bytes(answer.records or b"")
        for batch in walk(data):
            self.next_offset = batch.last_offset + 1
            if not batch.is_control:
                for record in iter_records(data, batch):
                    self._read(batch.base_offset, record)

    def _read(self, base_offset: int, record: Record) -> None:
        decoded = decode_record(record.key, record.value)
        if decoded is not None:
            value_bytes = None if record.value is None else len(record.value)
            self._unread.append(Logged(base_offset, decoded, value_bytes))

    def _comparable(self, logged: Logged) -> Written:
        key, value = logged.record.key, logged.record.value
        if is_dataclass(value) and not isinstance(value, type):
            if hasattr(value, HASH):
                self.hashes.append(getattr(value, HASH))
            own = {name: getattr(value, name) for name in (*CLOCKS, HASH) if hasattr(value, name)}
            value = replace(value, **{name: int(number != 0) for name, number in own.items()})
        if isinstance(value, GroupMetadataValue):  # Of a hash map, whose order nothing depends on.
            value = replace(value, members=sorted(value.members, key=lambda member: member.member_id))
        return Written(_TYPES[type(key)], key, value, logged.value_bytes)


_TYPES: Final = {
    OffsetCommitKey: OFFSET_COMMIT,
    GroupMetadataKey: GROUP_METADATA,
    **{key: number for number, (key, _) in CONSUMER_GROUP_SCHEMAS.items()},
}


def _is_mark(record: CoordinatorRecord, marker: str, mark: int) -> bool:
    key, value = record.key, record.value
    return (
        isinstance(key, OffsetCommitKey)
        and key.group == marker
        and value is not None
        and value.offset == mark
    )


def types(records: list[Written]) -> list[int]:
    """The types of records, tombstones as negative numbers."""
    return [each.type if each.value is not None else -each.type for each in records]
