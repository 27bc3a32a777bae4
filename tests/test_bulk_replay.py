"""The replay of a whole log, held equal to the replay of its records one by one."""

from __future__ import annotations

import gc
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.records import group_records as group_records_of
from coordinator.groups.consumer.records import (
    new_current_record,
    new_epoch_record,
    new_member_record,
    new_regex_record,
    new_regex_tombstone,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_codec import encode_record, replayed_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.offsets.topic_offsets import NewestOffsets
from coordinator.shard.bulk_replay import BulkReplay
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.codec.codec import encode
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import DecodeError
from protocol.records.control import ControlType, Marker, control_type, encode_marker
from protocol.records.records import Codec, CorruptBatch, parse_header, read_records
from protocol.records.records import Record as LogRecord
from tests.batches import encode_batch

TYPES = {LegacyOffsetCommitKey: 0, OffsetCommitKey: 1, GroupMetadataKey: 2}
IDS = [ZERO_UUID, b"\x01" * 16, b"\x02" * 16]

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
groups = st.sampled_from(["g", "другая", "x" * 100])
topics = st.sampled_from(["orders", "payments", "t"])
partitions = st.one_of(st.integers(0, 5), st.sampled_from([-(2**31), -1, 300, 70_000, 2**31 - 1]))
notes = st.sampled_from(["", "", "", "note", "ö" * 70])

NAMES = ("offset", "leader_epoch", "metadata", "commit_timestamp", "topic_id")
plain_commits = st.builds(
    lambda *fields: encode(OffsetCommitValue(**dict(zip(NAMES, fields, strict=True))), 4),
    int64s, int32s, notes, int64s, st.sampled_from(IDS),
).map(lambda body: pack(">h", 4) + body)  # fmt: skip


@st.composite
def old_commits(draw: st.DrawFn) -> bytes:
    """Values of the versions that only older brokers write."""
    version = draw(st.integers(0, 3))
    value = OffsetCommitValue(
        offset=draw(int64s),
        leader_epoch=draw(int32s) if version == 3 else -1,
        metadata=draw(notes),
        commit_timestamp=draw(int64s),
        expire_timestamp=draw(st.sampled_from([-1, 1_000])) if version == 1 else -1,
    )
    return pack(">h", version) + encode(value, version)


commit_keys = st.builds(
    lambda group, topic, partition: (
        pack(">h", 1) + encode(OffsetCommitKey(group=group, topic=topic, partition=partition), 0)
    ),
    groups, topics, partitions,
)  # fmt: skip
commits = st.tuples(
    commit_keys, st.one_of(plain_commits, plain_commits, plain_commits, old_commits(), st.none())
)
trailing = st.tuples(
    commit_keys.map(lambda key: key + b"more"), plain_commits.map(lambda value: value + b"more")
)
legacy_keys = st.builds(
    lambda group, topic, partition: (
        pack(">h", 0) + encode(LegacyOffsetCommitKey(group=group, topic=topic, partition=partition), 0)
    ),
    groups, topics, partitions,
)  # fmt: skip
legacy_values = st.builds(
    lambda offset, note, time: (
        pack(">h", 0) + encode(LegacyOffsetCommitValue(offset=offset, metadata=note, commit_timestamp=time), 0)
    ),
    int64s, notes, int64s,
)  # fmt: skip
legacy = st.tuples(legacy_keys, st.one_of(legacy_values, st.none()))
group_keys = groups.map(lambda group: pack(">h", 2) + encode(GroupMetadataKey(group=group), 0))


def group_value(generation: int, version: int) -> bytes:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=1, subscription=b"", assignment=b"a"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=generation, protocol="range", leader="m", members=[member]
    )
    return pack(">h", version) + encode(value, version)


group_values = st.builds(group_value, st.integers(0, 9), st.integers(0, 4))
group_records = st.tuples(group_keys, st.one_of(group_values, st.none()))
unknown = st.tuples(
    st.sampled_from([pack(">h", kind) + b"\x00\x01g" for kind in (11, 17, 999)]),
    st.one_of(st.binary(max_size=60), st.none()),
)
garbage = st.one_of(
    st.tuples(st.none(), st.none()),
    st.tuples(st.binary(max_size=4), st.none()),
    st.tuples(commit_keys.map(lambda key: key[:-1]), st.none()),
    st.tuples(commit_keys, st.sampled_from([b"", b"\x00", pack(">h", 5), pack(">h", 4), pack(">hq", 4, 7)])),
    st.tuples(commit_keys, plain_commits.map(lambda value: value[:-1])),
)
member_ids = st.sampled_from(["m", "n"])
consumer_records = st.one_of(
    st.builds(lambda group, member: new_member_record(group, ConsumerMember(member)), groups, member_ids),
    st.builds(new_epoch_record, groups, st.integers(1, 9), int64s),
    st.builds(new_target_record, groups, member_ids, st.just({IDS[1]: (0, 3)})),
    st.builds(new_target_epoch_record, groups, st.integers(1, 9), int64s),
    st.builds(
        lambda group, member, epoch: new_current_record(group, member, CurrentAssignment(epoch, epoch - 1)),
        groups, member_ids, st.integers(1, 9),
    ),
    st.builds(lambda group: new_regex_record(group, "o.*", ResolvedRegex(("orders",), 1, 2)), groups),
    st.builds(lambda group: new_regex_tombstone(group, "o.*"), groups),
).map(encode_record)  # fmt: skip
sound_records = st.one_of(
    commits, commits, commits, legacy, group_records, consumer_records, unknown, trailing
)


producers = st.sampled_from([None, None, 1, 2, 3])
controls = st.sampled_from([(producer, commits) for producer in (1, 2, 3, 4) for commits in (True, False)])
held_commits = st.tuples(commit_keys, st.one_of(plain_commits, plain_commits, old_commits(), st.none()))


@st.composite
def transactional_logs(draw: st.DrawFn) -> list[bytearray]:
    """Batches of producers and of no producer, and markers, as they come."""
    batches, base_offset = [], 0
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            producer_id, is_commit = draw(controls)
            marker = Marker(producer_id, draw(st.integers(0, 1)), 0, is_commit)
            batches.append(encode_marker(marker, base_offset=base_offset, wall_ms=1_000))
            base_offset += 1
            continue
        producer = draw(producers)
        who: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "transactional": True}
        drawn = draw(st.lists(held_commits if producer else sound_records, min_size=1, max_size=6))
        found = [LogRecord(key, value, 1_000) for key, value in drawn]
        batches.append(encode_batch(found, base_offset=base_offset, **(who if producer else {})))
        base_offset += len(found)
    return batches


@st.composite
def logs(draw: st.DrawFn, records: st.SearchStrategy) -> list[bytearray]:
    """Batches, at offsets that leave gaps as compaction does."""
    batches, base_offset = [], draw(st.sampled_from([0, 2**40]))
    for _ in range(draw(st.integers(1, 3))):
        wall_ms = draw(st.sampled_from([0, 1_700_000_000_000]))
        times = st.sampled_from([0, 1, 63, 64, 8191, 8192, 2**21, 2**40])
        headers = st.sampled_from([(), (), (("h", b"v"),)])
        drawn = draw(st.lists(st.tuples(records, times, headers), min_size=1, max_size=80))
        found = [LogRecord(key, value, wall_ms + ms, header) for (key, value), ms, header in drawn]
        codec = draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD]))
        batches.append(encode_batch(found, base_offset=base_offset, codec=codec))
        base_offset += len(found) + draw(st.integers(0, 3))
    return batches


def fresh_shard() -> Shard:
    return Shard(0, GroupSettings(), Topics())


def one_by_one(batches: list[bytearray], onto: Shard | None = None) -> Shard:
    shard = onto or fresh_shard()
    for data in batches:
        batch = parse_header(data)
        for record in read_records(data, batch):
            if batch.is_control:
                is_commit = control_type(record.key) is ControlType.COMMIT
                marker = Marker(batch.producer_id, batch.producer_epoch, 0, is_commit)
                shard.replay(marker, record.offset)
            elif (typed := replayed_record(record.key, record.value)) is not None:
                producer = (batch.producer_id, batch.producer_epoch)
                shard.replay(typed, record.offset, producer if batch.is_transactional else None)
    return shard


def in_bulk(batches: list[bytearray], finish_after: int = 100) -> Shard:
    """By one replay, which is finished after every so many batches and at the end."""
    shard = fresh_shard()
    replay = BulkReplay(shard)
    for number, data in enumerate(batches, start=1):
        replay.replay_batch(data, parse_header(data))
        if number % finish_after == 0:
            replay.finish()
    replay.finish()
    return shard


def consumer_groups_of(shard: Shard) -> dict[str, Any]:
    return {group_id: group_records_of(group) for group_id, group in shard.consumer_groups.items()}


def assert_same(batches: list[bytearray]) -> None:
    """Both ways end in the same state, or both refuse."""
    try:
        expected = one_by_one(batches)
    except (DecodeError, CorruptBatch):
        with pytest.raises((DecodeError, CorruptBatch)):  # Which one is a matter of who looks first.
            in_bulk(batches)
        return
    for finish_after in (100, 1, 2):
        replayed = in_bulk(batches, finish_after)
        assert replayed.offsets == expected.offsets
        assert replayed.stored == expected.stored
        assert consumer_groups_of(replayed) == consumer_groups_of(expected)
        assert sorted(replayed.offsets.group_ids()) == sorted(expected.offsets.group_ids())


def test_a_load_leaves_nothing_to_the_collector() -> None:
    """Which would find all of it at once, some day, and have every request wait for it."""
    key = pack(">h", 1) + encode(OffsetCommitKey(group="g", topic="orders", partition=0), 0)
    value = pack(">h", 4) + encode(OffsetCommitValue(offset=1, metadata="", commit_timestamp=1), 4)
    gc.collect()
    before = replays()  # Of other tests, which a traceback may hold.
    gc.disable()
    try:
        shard = in_bulk([encode_batch([LogRecord(key, value, 1)])])
        left = [each for each in replays() if not any(each is other for other in before)]
    finally:
        gc.enable()
    assert (shard.offsets.count(), left) == (1, [])


def replays() -> list[object]:
    """Those that are alive, with what they gather."""
    return [each for each in gc.get_objects() if isinstance(each, (BulkReplay, NewestOffsets))]


@settings(max_examples=200, deadline=None)
@given(logs(sound_records))
def test_a_log_of_every_kind_of_record_says_the_same_in_bulk(batches: list[bytearray]) -> None:
    one_by_one(batches)  # All of it is sound: nothing here is equal for being refused.
    assert_same(batches)


@settings(max_examples=300, deadline=None)
@given(transactional_logs())
def test_a_log_of_transactions_says_the_same_in_bulk(batches: list[bytearray]) -> None:
    """What is still open at its end is open afterwards: the offsets compare with what is held of them."""
    one_by_one(batches)
    assert_same(batches)


@settings(max_examples=200, deadline=None)
@given(logs(st.one_of(sound_records, sound_records, sound_records, garbage)))
def test_what_is_refused_one_by_one_is_refused_in_bulk(batches: list[bytearray]) -> None:
    assert_same(batches)


@settings(max_examples=200, deadline=None)
@given(st.lists(commits, min_size=1, max_size=6), st.data())
def test_bytes_that_were_changed_mean_the_same_in_bulk(
    records: list[tuple[bytes, bytes | None]], drawn: st.DataObject
) -> None:
    """The CRC has been looked at before; here the bytes are believed, whatever they are."""
    batch = encode_batch([LogRecord(key, value, 1_000) for key, value in records * 2])
    for _ in range(drawn.draw(st.integers(1, 3))):
        batch[drawn.draw(st.integers(61, len(batch) - 1))] = drawn.draw(st.integers(0, 255))
    assert_same([batch])


def test_every_byte_of_a_plain_commit_may_be_another() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="", commit_timestamp=9, topic_id=IDS[1])
    key = pack(">h", 1) + encode(OffsetCommitKey(group="g", topic="t", partition=3), 0)
    record = LogRecord(key, pack(">h", 4) + encode(value, 4), 1_000)
    whole = encode_batch([record, record, record])
    for position in range(61, len(whole)):
        for change in (0x01, 0x40, 0x80, 0xFF):
            batch = bytearray(whole)
            batch[position] ^= change
            assert_same([batch])


def test_a_long_batch_has_offsets_of_two_and_three_bytes() -> None:
    records = []
    for partition in range(9_000):
        key = pack(">h", 1) + encode(OffsetCommitKey(group="g", topic="t", partition=partition), 0)
        value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="", commit_timestamp=9, topic_id=IDS[1])
        records.append(LogRecord(key, pack(">h", 4) + encode(value, 4), 1_000))
    assert_same([encode_batch(records)])


def test_a_batch_may_begin_with_a_record_shorter_than_the_end_of_a_commit() -> None:
    """What stands before a commit's end is then before the batch, whatever follows on the record."""
    key = pack(">h", 1) + encode(OffsetCommitKey(group="g", topic="t", partition=0), 0)
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="", commit_timestamp=9, topic_id=IDS[1])
    commit = encode_batch([LogRecord(key, pack(">h", 4) + encode(value, 4), 1_000)])
    for length in range(60):
        group = pack(">h", 2) + encode(GroupMetadataKey(group="g" * length), 0)
        assert_same([commit, encode_batch([LogRecord(key, None, 1_000), LogRecord(group, None, 1_000)])])
