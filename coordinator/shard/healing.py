"""What is stored under the keys of records that others wrote into a shard's log, as records to be written again.

A compacted log keeps the last record of each key, no matter who wrote it. So the owner of a shard writes behind
such a record what it has under the same key, or that it has nothing, before the log forgets the owner's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
)
from coordinator.groups.consumer.records import (
    group_records,
    group_tombstones,
    member_tombstones,
    new_regex_tombstone,
)
from coordinator.groups.record_codec import encode_record, replayed_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.shard.shard import Shard
from protocol.records.records import Record


@dataclass(slots=True)
class _Named:
    """What of a consumer group others wrote of. The records of such a group only make sense in one order."""

    member_ids: dict[str, None] = field(default_factory=dict)
    regexes: dict[str, None] = field(default_factory=dict)

    def add(self, key: Any) -> None:
        if isinstance(key, ConsumerGroupRegularExpressionKey):
            self.regexes[key.regular_expression] = None
        elif (member_id := getattr(key, "member_id", None)) is not None:
            self.member_ids[member_id] = None


def healing_records(shard: Shard, keys: Iterable[bytes], wall_ms: int) -> list[Record]:
    """The records after which these keys mean in the log of `shard` what they mean in its stored state.

    A key that no owner writes, or that cannot be read, is removed.
    """
    healing: list[Record] = []
    consumer_groups: dict[str, _Named] = {}
    for key in keys:
        record = replayed_record(key, None)
        if record is None:
            healing.append(Record(key, None, wall_ms))
        elif (group_id := getattr(record.key, "group_id", None)) is not None:
            consumer_groups.setdefault(group_id, _Named()).add(record.key)
        else:
            if isinstance(
                record.key, LegacyOffsetCommitKey
            ):  # It means what another key does, which is read last.
                healing.append(Record(key, None, wall_ms))
            healing.append(_encoded(_stored(shard, record.key), wall_ms))
    for group_id, named in consumer_groups.items():
        healing += [_encoded(each, wall_ms) for each in _consumer_group(shard, group_id, named)]
    return healing


def _encoded(record: CoordinatorRecord, wall_ms: int) -> Record:
    return Record(*encode_record(record), wall_ms)


def _stored(shard: Shard, key: Any) -> CoordinatorRecord:
    """The record of what is stored of a classic group, or of an offset; a tombstone if nothing is."""
    if isinstance(key, GroupMetadataKey):
        stored = shard.stored.get(key.group)
        return CoordinatorRecord(key, None if stored is None else stored.value())
    assert isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey), key
    tombstone = new_offset_commit_tombstone(key.group, key.topic, key.partition)
    committed = shard.offsets.get(key.group, key.topic, key.partition)
    if committed is None:
        return tombstone
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_wall_ms,
        expire_timestamp=committed.expire_wall_ms,
        topic_id=committed.topic_id,
    )
    return replace(tombstone, value=value)


def _consumer_group(shard: Shard, group_id: str, named: _Named) -> list[CoordinatorRecord]:
    """The records that make the group what it is, whatever of what was named there is by now."""
    group = shard.consumer_groups.get(group_id)
    if group is None:
        return group_tombstones(group_id, list(named.member_ids), list(named.regexes))
    healing = []
    for member_id in named.member_ids:
        current, target, member = member_tombstones(group_id, member_id)
        healing.append(current)  # What members hold is let go first: no two must hold the same.
        if member_id not in group.members:
            healing += [target, member]
        elif member_id not in group.targets:
            healing.append(target)
    resolved = group.subscriptions.resolved
    healing += [new_regex_tombstone(group_id, regex) for regex in named.regexes if regex not in resolved]
    if not group.has_partition_metadata:
        healing.append(CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None))
    return healing + group_records(group)
