"""What others have written into a shard's log is as if it had never been there, once its owner has healed it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.classic.stored import StoredGroup
from coordinator.groups.consumer.records import group_records as group_records_of
from coordinator.groups.record_codec import decode_record, encode_record
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.shard.healing import healing_records
from coordinator.shard.shard import Shard
from protocol.errors import DecodeError, ErrorCode
from protocol.records.records import Record, encode_batch, parse_header, read_records
from tests.server.asking import commit, committed, fetch, fetched
from tests.server.shard_world import ShardWorld
from tests.test_bulk_replay import (
    commits,
    consumer_groups_of,
    consumer_records,
    fresh_shard,
    garbage,
    group_records,
    legacy,
    unknown,
)

WALL_MS = 1_700_000_000_000

own_records = st.one_of(commits, commits, group_records, consumer_records)
strays = st.one_of(commits, legacy, group_records, consumer_records, unknown, garbage).filter(
    lambda pair: pair[0] is not None
)


def stored(shard: Shard) -> dict[str, Any]:
    """What is stored, wherever in the log it stands; and of a group without members that it is there at all."""
    return {
        "groups": dict(shard.stored),
        "consumer groups": consumer_groups_of(shard),
        "offsets": {
            (group_id, topic, partition): committed._replace(log_offset=0)
            for group_id in shard.offsets.group_ids()
            for topic, partition, committed in shard.offsets.of_group(group_id)
        },
    }


def replayed(records: list[tuple[bytes, bytes | None]]) -> Shard:
    """By someone who reads all of it that can be read."""
    shard = fresh_shard()
    for offset, (key, value) in enumerate(records):
        with suppress(DecodeError):
            record = decode_record(key, value)
            if record is not None:
                shard.replay(record, offset)
    return shard


def written_by_an_owner(shard: Shard) -> list[tuple[bytes, bytes | None]]:
    """A log of what the shard has stored, in an order in which an owner could have written it."""
    records = [
        CoordinatorRecord(GroupMetadataKey(group=each), of.value()) for each, of in shard.stored.items()
    ]
    for group in shard.consumer_groups.values():
        records += group_records_of(group)
    keys = [
        encode_record(new_offset_commit_tombstone(group_id, topic, partition))[0]
        for group_id in shard.offsets.group_ids()
        for topic, partition, _ in shard.offsets.of_group(group_id)
    ]
    offsets = [(each.key or b"", each.value) for each in healing_records(shard, keys, WALL_MS)]
    return [*map(encode_record, records), *offsets]


def compacted(records: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """The last of each key, where it stands; without those that remove it."""
    last = {key: place for place, (key, _) in enumerate(records)}
    return [
        (key, value) for place, (key, value) in enumerate(records) if last[key] == place and value is not None
    ]


@settings(max_examples=400, deadline=None)
@given(st.lists(own_records, max_size=30), st.lists(strays, min_size=1, max_size=8))
def test_what_is_healed_is_read_as_before(
    drawn: list[tuple[bytes, bytes | None]], written: list[tuple[bytes, bytes | None]]
) -> None:
    """By those who have read what others wrote, and by those who come once it is compacted away."""
    shard = replayed(drawn)
    own = written_by_an_owner(shard)
    assert stored(replayed(own)) == stored(shard)
    healing = healing_records(shard, dict.fromkeys(key for key, _ in written), WALL_MS)
    pairs = [(each.key or b"", each.value) for each in healing]
    log = [*own, *written, *pairs]
    assert stored(replayed(log)) == stored(shard)
    assert stored(replayed(compacted(log))) == stored(shard)


@given(st.lists(group_records, min_size=1, max_size=5))
def test_a_stored_group_is_written_as_it_was_read(records: list[tuple[bytes, bytes | None]]) -> None:
    for group_id, group in replayed(records).stored.items():
        assert StoredGroup.from_record(group_id, group.value()) == group


def test_a_runner_heals_in_its_own_log() -> None:
    """What it has stored is as it was, also for who reads the log anew."""
    world = ShardWorld()
    assert committed(world.answer(commit(7), 8)) == ErrorCode.NONE
    key = encode_record(new_offset_commit_tombstone("g", "orders", 0))[0]
    stray = encode_batch([Record(key, None, WALL_MS), Record(b"no key", b"of ours", WALL_MS)])
    world.log.append(stray, wall_ms=WALL_MS)
    world.runner.heal([key, b"no key"])
    world.end_turn()
    world.end_flush()
    assert fetched(world.answer(fetch(), 8)) == 7
    assert [
        record.key for record in read_records(world.log.stored[-1], parse_header(world.log.stored[-1]))
    ] == [
        key,
        b"no key",
    ]
    assert fetched(after_a_load(world)) == 7


def after_a_load(world: ShardWorld) -> Any:
    """Who reads it passes the garbage over, as `coordinator.backing.kafka.strays` does."""
    del world.log.stored[-2]
    world.load()
    return world.answer(fetch(), 8)
