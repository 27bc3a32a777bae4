"""A shard reads the same from its log before and after any cleaning of it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from struct import Struct

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_group_tombstone, new_offset_commit_tombstone
from coordinator.groups.classic.states import EMPTY
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.records import (
    group_records,
    group_tombstones,
    member_tombstones,
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import (
    RECORD_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.clock import Clock
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loading import load_shard
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.records.control import Marker, encode_marker
from protocol.records.records import Codec
from protocol.records.records import Record as LogRecord
from storage.log.partition_log import PartitionLog
from tests.batches import encode_batch
from tests.storage.cleaning import COMPACTED, NOW_MS, RETENTION_MS, clean, data_records, open_compacted, roll

GROUPS = [f"g{number}" for number in range(4)]
PARTITIONS = range(3)
CONSUMER_GROUP = "consumers"
TYPE = Struct(">h")
NO_ERROR = 0


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_compacted(tmp_path / "__consumer_offsets-0", config=replace(COMPACTED, segment_bytes=2000))


def append(
    log: PartitionLog,
    *records: CoordinatorRecord | LogRecord,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
) -> None:
    """A batch; with a producer it is a part of its transaction."""
    encoded = [
        each if isinstance(each, LogRecord) else LogRecord(*encode_record(each), timestamp_ms=NOW_MS)
        for each in records
    ]
    batch = encode_batch(
        encoded,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    log.append(batch, wall_ms=NOW_MS)
    log.flush()


def end(log: PartitionLog, producer_id: int, is_commit: bool) -> None:
    log.append(
        encode_marker(Marker(producer_id, 0, 0, is_commit), base_offset=0, wall_ms=NOW_MS), wall_ms=NOW_MS
    )
    log.flush()


def commit(group: str, partition: int, offset: int) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata="", commit_timestamp=NOW_MS, expire_timestamp=-1
    )
    return CoordinatorRecord(OffsetCommitKey(group=group, topic="t", partition=partition), value)


def metadata(group: str, generation: int) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=NOW_MS,
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group), value)


def removal(group: str) -> list[CoordinatorRecord]:
    return [
        *(new_offset_commit_tombstone(group, "t", each) for each in PARTITIONS),
        new_group_tombstone(group),
    ]


def load(log: PartitionLog) -> Shard:
    kind = group_shards(lambda partition: Shard(partition, GroupSettings(), Topics(t=3)))
    return load_shard(kind, 0, log, Clock(), 1 << 20, cut_back=False).shard


def visible(shard: Shard) -> dict[str, object]:
    """All that the log decides: every committed offset, every stored group."""
    offsets = {
        f"{group}-{partition}": shard.offsets.get(group, "t", partition)
        for group in GROUPS
        for partition in PARTITIONS
    }
    held = shard.offsets.transactions
    consumer_groups = {name: group_records(each) for name, each in shard.consumer_groups.items()}
    return {**offsets, **shard.stored, **consumer_groups, "groups": sorted(shard.groups), "held": held}


def life_of_consumer_group(
    group: ConsumerGroup | None, chance: random.Random, epoch: int
) -> list[CoordinatorRecord]:
    """A next step of a consumer group as it stands: a member comes, moves on or goes, or the group is removed."""
    member_id = chance.choice(("m1", "m2"))
    joined = {} if group is None else group.members
    if group is not None and not joined and chance.random() < 0.5:
        return group_tombstones(CONSUMER_GROUP, [], [])
    if member_id in joined and chance.random() < 0.4:
        return [*member_tombstones(CONSUMER_GROUP, member_id), new_epoch_record(CONSUMER_GROUP, epoch, 0)]
    partitions = {b"T" * 16: {("m1", "m2").index(member_id): epoch}}
    return [
        new_member_record(CONSUMER_GROUP, ConsumerMember(member_id, topic_names=("t",))),
        new_epoch_record(CONSUMER_GROUP, epoch, 7),
        new_target_record(CONSUMER_GROUP, member_id, {b"T" * 16: (0,)}),
        new_target_epoch_record(CONSUMER_GROUP, epoch, NOW_MS),
        new_current_record(CONSUMER_GROUP, member_id, CurrentAssignment(epoch, epoch, assigned=partitions)),
    ]


@pytest.mark.parametrize("seed", range(25))
def test_any_history_reads_the_same_after_any_cleaning(log: PartitionLog, seed: int) -> None:
    chance = random.Random(seed)
    shadow = open_compacted(log.directory.with_name("shadow-0"))  # The same, and never cleaned.
    checkpoint, wall_ms = 0, NOW_MS
    for number in range(120):
        group, partition = chance.choice(GROUPS), chance.choice(PARTITIONS)
        records = chance.choice(
            (
                [commit(group, partition, number), commit(group, (partition + 1) % 3, number)],
                [commit(group, partition, number)],
                [metadata(group, number)],
                [new_offset_commit_tombstone(group, "t", partition)],
                [
                    *(new_offset_commit_tombstone(group, "t", each) for each in PARTITIONS),
                    new_group_tombstone(group),
                ],
            )
        )
        if chance.random() < 0.3:
            records = life_of_consumer_group(load(shadow).consumer_groups.get(CONSUMER_GROUP), chance, number)
        codec = chance.choice(list(Codec))
        append(log, *records, codec=codec)
        append(shadow, *records, codec=codec)
        if chance.random() < 0.1:
            wall_ms += chance.choice((0, RETENTION_MS))
            roll(log)
            checkpoint = clean(log, checkpoint=checkpoint, wall_ms=wall_ms, buffer_bytes=4000).end_offset
            assert visible(load(log)) == visible(load(shadow)), f"seed={seed}"
    assert checkpoint > 0
    assert len(list(data_records(log))) < len(list(data_records(shadow)))


@pytest.mark.parametrize("seed", range(25))
def test_any_history_of_transactions_reads_the_same_after_any_cleaning(log: PartitionLog, seed: int) -> None:
    """Open transactions read the same too: their records, and the markers of others between them."""
    chance = random.Random(seed)
    shadow = open_compacted(log.directory.with_name("shadow-0"))
    checkpoint, wall_ms = 0, NOW_MS
    for number in range(150):
        group, partition, producer_id = (
            chance.choice(GROUPS),
            chance.choice(PARTITIONS),
            chance.choice((1, 2, 3)),
        )
        step, codec, is_commit = chance.random(), chance.choice(list(Codec)), chance.random() < 0.7
        for each in (log, shadow):
            if step < 0.5:
                append(each, commit(group, partition, number), codec=codec, producer_id=producer_id)
            elif step < 0.8:
                end(each, producer_id, is_commit)
            elif step < 0.9:
                append(each, commit(group, partition, number), codec=codec)
            else:
                append(each, new_offset_commit_tombstone(group, "t", partition))
        if chance.random() < 0.1:
            wall_ms += chance.choice((0, RETENTION_MS))
            roll(log)
            checkpoint = clean(log, checkpoint=checkpoint, wall_ms=wall_ms, buffer_bytes=4000).end_offset
            assert visible(load(log)) == visible(load(shadow)), f"seed={seed}"
    assert checkpoint > 0
    assert len(list(data_records(log))) < len(list(data_records(shadow)))


def of_another_type(kind: int, group: str, value: bytes | None = b"\x00\x00\x00\x00\x00\x01") -> LogRecord:
    """A record of a consumer, share or streams group, as far as we read it: its type."""
    name = group.encode()
    return LogRecord(TYPE.pack(kind) + TYPE.pack(len(name)) + name, value, NOW_MS)


@pytest.mark.parametrize(
    ("issue", "kinds"),
    [("KAFKA-20254", (17, 19, 20, 21))],
)
def test_commits_of_a_former_classic_group_before_records_of_its_new_type(
    log: PartitionLog, issue: str, kinds: tuple[int, ...]
) -> None:
    """A classic group became one of another type: the tombstone that said so is compacted away, its offset
    commits are not, and so the new type's records follow on what looks like a simple group."""
    assert all(kind in RECORD_TYPES for kind in kinds), issue
    append(log, metadata("g0", 1), commit("g0", 0, 5), commit("g0", 1, 6))
    append(log, new_group_tombstone("g0"), *(of_another_type(kind, "g0") for kind in kinds))
    append(log, commit("g0", 1, 7))
    before = visible(load(log))
    roll(log)
    clean(log, wall_ms=NOW_MS)
    assert visible(load(log)) == before
    roll(log)
    clean(log, wall_ms=NOW_MS + RETENTION_MS)
    kept = [
        (each.offset, TYPE.unpack_from(each.key or b"")[0], each.value is None) for each in data_records(log)
    ]
    assert kept == [
        (1, 1, False),
        *((4 + n, kind, False) for n, kind in enumerate(kinds)),
        (4 + len(kinds), 1, False),
    ]

    shard = load(log)
    assert visible(shard) == before
    committed = [shard.offsets.get("g0", "t", each) for each in (0, 1)]
    assert [each and each.offset for each in committed] == [5, 7]
    assert "g0" not in shard.stored
    assert shard.groups["g0"].state is EMPTY


def test_commits_of_a_former_classic_group_before_those_of_the_consumer_group_that_it_became(
    log: PartitionLog,
) -> None:
    """KAFKA-19862: the commits look like those of a simple group, and the group is a consumer group."""
    append(log, metadata("g0", 1), commit("g0", 0, 5), commit("g0", 1, 6))
    append(log, new_group_tombstone("g0"), *records_of_consumer_group("g0"))
    append(log, commit("g0", 1, 7))
    before = visible(load(log))
    for wall_ms in (NOW_MS, NOW_MS + RETENTION_MS):
        roll(log)
        clean(log, wall_ms=wall_ms)
        assert visible(load(log)) == before
    kept = [TYPE.unpack_from(each.key or b"")[0] for each in data_records(log)]
    assert kept == [1, 5, 3, 7, 6, 8, 1]
    shard = load(log)
    assert [
        each.offset for each in (shard.offsets.get("g0", "t", 0), shard.offsets.get("g0", "t", 1)) if each
    ] == [5, 7]
    assert "g0" not in shard.groups
    assert list(shard.consumer_groups["g0"].members) == ["m1"]


def records_of_consumer_group(group_id: str) -> list[CoordinatorRecord]:
    group = ConsumerGroup(group_id, epoch=4, assignment_epoch=4)
    group.put_member(ConsumerMember("m1"), CurrentAssignment(4, 4))
    group.targets["m1"] = {}
    return group_records(group)


def test_a_consumer_group_that_came_back_to_be_classic_is_what_its_newest_record_says(
    log: PartitionLog,
) -> None:
    """The downgrade (KAFKA-21117): the tombstones of the other type may be gone, or not."""
    append(log, commit("g0", 0, 5), *records_of_consumer_group("g0"))
    append(log, *group_tombstones("g0", ["m1"], []), metadata("g0", 9), commit("g0", 0, 6))
    before = visible(load(log))
    for wall_ms in (NOW_MS, NOW_MS + RETENTION_MS):
        roll(log)
        clean(log, wall_ms=wall_ms)
        shard = load(log)
        assert visible(shard) == before
        assert shard.stored["g0"].generation_id == 9
        assert shard.consumer_groups == {}


@pytest.mark.parametrize("kind", [17])
def test_a_group_that_came_back_to_be_classic_is_what_its_newest_record_says(
    log: PartitionLog, kind: int
) -> None:
    """The downgrade (KAFKA-21117): the tombstones of the other type may be gone, or not."""
    append(log, commit("g0", 0, 5), of_another_type(kind, "g0"))
    append(log, of_another_type(kind, "g0", None), metadata("g0", 9), commit("g0", 0, 6))
    before = visible(load(log))
    for wall_ms in (NOW_MS, NOW_MS + RETENTION_MS):
        roll(log)
        clean(log, wall_ms=wall_ms)
        shard = load(log)
        assert visible(shard) == before
        assert shard.stored["g0"].generation_id == 9
    assert [each.offset for each in data_records(log)] == [3, 4]
