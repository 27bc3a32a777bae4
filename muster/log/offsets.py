"""The groups and committed offsets in a directory's log, found by the replay that the daemon uses.

The files are walked, not opened as a log: nothing is cut or rebuilt. One partition is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffset
from coordinator.runtime.loading import replay_batches
from coordinator.shard.shard import Shard
from coordinator.topic_catalog import TopicImage
from muster.log.entries import key_texts, record_type
from muster.log.places import LogSource, LogToolError, PartitionDirectory
from muster.log.progress import Advance
from muster.log.rows import OffsetRow
from muster.log.walk import walk
from protocol.codec.primitives import ZERO_UUID
from protocol.consumer import PROTOCOL_TYPE
from protocol.errors import DecodeError
from protocol.records.records import Batch, CorruptBatch, iter_records
from storage.files import StorageError
from storage.log.damage_scan import Damage
from storage.log.partition_files import encode_uuid

MEMBER_TYPES = frozenset({5, 10, 19})
"""Types of the records that hold a member of a KIP-848, share or streams group."""


class NoTopics:
    """The topic catalogue of an offline replay, which is empty and is never asked."""

    version = version_with_new_topics = 0

    def names(self) -> Iterable[str]:
        return ()

    def image(self, name: str) -> TopicImage | None:
        return None

    def partition_count(self, topic: str) -> int | None:
        return None

    def topic_id(self, topic: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def was_deleted(self, topic_id: bytes) -> bool:
        return False


@dataclass(slots=True)
class ExportNotes:
    """Counts of what an export read and left out, and the damage that it met."""

    records: int = 0
    skipped: int = 0
    damages: list[tuple[PartitionDirectory, Damage]] = field(default_factory=list)


def new_shard(partition: int) -> Shard:
    return Shard(partition, GroupSettings(), NoTopics())


def valid_batches(
    source: LogSource, place: PartitionDirectory, advance: Advance, on_damage: Callable[[Damage], None]
) -> Iterator[tuple[Batch, memoryview]]:
    """Every valid batch of a partition; damage goes to `on_damage`. Raises StorageError."""
    for _, found in walk(source, place):
        advance(found.end - found.position)
        if isinstance(found, Damage):
            on_damage(found)
        else:
            yield found.batch, found.data


def exported_rows(
    source: LogSource, notes: ExportNotes, wanted: frozenset[str], advance: Advance
) -> Iterator[OffsetRow]:
    """The rows of all groups, or of those in `wanted`. Raises LogToolError for a record that does not decode."""
    places = source.offsets_places()
    if not places:
        raise LogToolError(f"there is no offsets topic in {source.path}")
    for place in places:
        shard = _replayed(source, place, notes, advance)
        for group in shard.offsets.group_ids():
            if not wanted or group in wanted:
                for topic, partition, committed in shard.offsets.of_group(group):
                    yield _row(shard, group, topic, partition, committed)


def _replayed(source: LogSource, place: PartitionDirectory, notes: ExportNotes, advance: Advance) -> Shard:
    assert place.name is not None
    shard = new_shard(place.name.partition)
    batches = valid_batches(source, place, advance, lambda damage: notes.damages.append((place, damage)))
    try:
        records, skipped = replay_batches(batches, shard)
    except (CorruptBatch, DecodeError) as error:
        raise LogToolError(f"{place} holds what cannot be read: {error}") from error
    except StorageError as error:
        raise LogToolError(f"cannot {error}") from error
    notes.records += records
    notes.skipped += skipped
    return shard


def _row(shard: Shard, group: str, topic: str, partition: int, committed: CommittedOffset) -> OffsetRow:
    protocol_type, generation, members = _group_of(shard, group)
    expires, epoch = committed.expire_wall_ms, committed.leader_epoch
    return OffsetRow(
        group=group,
        topic=topic,
        partition=partition,
        offset=committed.offset,
        leader_epoch=None if epoch < 0 else epoch,
        metadata=committed.metadata,
        commit_timestamp_ms=committed.commit_wall_ms,
        expire_timestamp_ms=None if expires == NO_EXPIRY else expires,
        topic_id=None if committed.topic_id == ZERO_UUID else encode_uuid(committed.topic_id),
        protocol_type=protocol_type,
        generation=generation,
        members=members,
    )


def _group_of(shard: Shard, group: str) -> tuple[str | None, int | None, int | None]:
    """Protocol type, generation or epoch, and number of members; None for each if only offsets are known."""
    if consumer_group := shard.consumer_groups.get(group):
        return PROTOCOL_TYPE, consumer_group.epoch, len(consumer_group.members)
    if stored := shard.stored.get(group):
        return stored.protocol_type, stored.generation_id, len(stored.members)
    return None, None, None


def groups_with_members(shard: Shard, batches: Iterable[tuple[Batch, memoryview]]) -> dict[str, int]:
    """The number of members of each group with any: classic groups by `shard`, other kinds by their records."""
    live = {group: len(stored.members) for group, stored in shard.stored.items() if stored.members}
    members: dict[tuple[str, ...], None] = {}
    for batch, data in batches:
        for record in () if batch.is_control else iter_records(data, batch):
            if record.key is not None and record_type(record.key) in MEMBER_TYPES:
                who = tuple(key_texts(record.key))
                if record.value is None:
                    members.pop(who, None)
                else:
                    members[who] = None
    for group, *_ in members:
        live[group] = live.get(group, 0) + 1
    return live
