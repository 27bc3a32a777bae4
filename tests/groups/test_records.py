"""The records' bytes: as Kafka writes them, and read back as they were meant."""

from __future__ import annotations

from struct import pack

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol
from coordinator.groups.classic.records import (
    new_empty_group_metadata_record,
    new_group_metadata_record,
    new_group_tombstone,
    new_offset_commit_tombstone,
)
from coordinator.groups.classic.stored import StoredGroup
from coordinator.groups.record_codec import decode_record, encode_record, replayed_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.codec.codec import encode
from protocol.errors import DecodeError

OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def string(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def data(content: bytes) -> bytes:
    return pack(">i", len(content)) + content


@pytest.fixture
def group() -> Group:
    group = Group("g", generation_id=7, protocol_name="range", state_wall_ms=1_000)
    member = Member("m", "i", "client", "/h", 60_000, 10_000, (OfferedProtocol("range", b"sub"),))
    group.add(member, "consumer")
    return group


def test_a_group_is_written_in_version_3_field_by_field(group: Group) -> None:
    key, value = encode_record(new_group_metadata_record(group, {"m": b"given"}))
    assert key == pack(">h", 2) + string("g")
    assert value == (
        pack(">h", 3)
        + string("consumer")
        + pack(">i", 7)
        + string("range")
        + string("m")
        + pack(">qi", 1_000, 1)
        + string("m")
        + string("i")
        + string("client")
        + string("/h")
        + pack(">ii", 60_000, 10_000)
        + data(b"sub")
        + data(b"given")
    )


@pytest.mark.parametrize(
    ("expire_ms", "version"), [(-1, 4), (99, 1)], ids=["plain", "with an expiry of its own"]
)
def test_offsets_are_written_in_version_4_or_in_1_if_they_expire(expire_ms: int, version: int) -> None:
    value = OffsetCommitValue(
        offset=5, leader_epoch=-1, metadata="note", commit_timestamp=77, expire_timestamp=expire_ms
    )
    record = CoordinatorRecord(OFFSET_KEY, value)
    key, encoded = encode_record(record)
    assert key == pack(">h", 1) + string("g") + string("t") + pack(">i", 3)
    assert encoded is not None
    assert encoded[:2] == pack(">h", version)
    assert decode_record(key, encoded) == record


def test_every_record_is_read_back_as_it_was_meant(group: Group) -> None:
    for record in (
        new_group_metadata_record(group, {"m": b"given"}),
        new_empty_group_metadata_record("g", 1_000),
        new_group_tombstone("g"),
        new_offset_commit_tombstone("g", "t", 3),
    ):
        assert decode_record(*encode_record(record)) == record


def test_a_tombstone_has_no_value() -> None:
    assert encode_record(new_group_tombstone("g"))[1] is None


def test_a_type_we_do_not_know_is_skipped() -> None:
    assert decode_record(pack(">h", 11) + string("g"), b"\x00\x00") is None
    assert decode_record(pack(">h", 999), None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\x00", None),
        (pack(">h", 1) + string("g"), None),  # Cut short.
        (pack(">h", 2) + string("g"), b""),
        (pack(">h", 2) + string("g"), pack(">h", 5)),  # A version of the future.
        (pack(">h", 2) + string("g"), pack(">h", -1)),
        (pack(">h", 2) + string("g"), pack(">h", 3) + string("consumer")),
        (pack(">h", 2) + string("g"), pack(">h", 3) + pack(">h", 32_000)),
    ],
)
def test_bytes_that_do_not_parse_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


def test_a_replay_takes_a_tombstone_under_what_does_not_parse_for_nothing() -> None:
    """An owner removes so what others wrote; what has a value, or no key, is refused."""
    cut_short = pack(">h", 1) + string("g")
    assert replayed_record(cut_short, None) is None
    for key, value in ((cut_short, b""), (None, None)):
        with pytest.raises(DecodeError):
            replayed_record(key, value)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10_000,
        rebalance_timeout=60_000,
        subscription=b"sub",
        assignment=b"given",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        current_state_timestamp=1_000,
        members=[member],
    )
    encoded = pack(">h", version) + encode(value, version)
    record = decode_record(pack(">h", 2) + string("g"), encoded)
    assert record is not None
    assert isinstance(record.value, GroupMetadataValue)
    stored = StoredGroup.from_record("g", record.value)
    assert (stored.generation_id, stored.leader) == (7, "m")
    assert stored.members[0].rebalance_timeout_ms == (10_000 if version == 0 else 60_000)
    assert stored.state_wall_ms == (None if version < 2 else 1_000)


def test_the_oldest_kind_of_offset_is_read(group: Group) -> None:
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=3)
    value = LegacyOffsetCommitValue(offset=5, metadata="note", commit_timestamp=77)
    record = decode_record(pack(">h", 0) + encode(key, 0), pack(">h", 0) + encode(value, 0))
    assert record == CoordinatorRecord(key, value)


def test_an_empty_group_that_never_had_a_type_is_stored_without_one() -> None:
    record = new_empty_group_metadata_record("g", 1_000)
    assert isinstance(record.key, GroupMetadataKey)
    assert isinstance(record.value, GroupMetadataValue)
    stored = StoredGroup.from_record("g", record.value)
    assert (stored.protocol_type, stored.generation_id, stored.state_wall_ms) == (None, 0, 1_000)
