"""The bodies of `__consumer_offsets` records are Kafka's, byte for byte, in every version.

The hex was made with Kafka 4.3.1's own classes, a few lines of Java per record:
`MessageUtil.toVersionPrefixedBytes(version, new OffsetCommitValue().setOffset(42)...)`, with the record
type in place of the version for keys. The two bytes of the prefix come first, then the body.
"""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.consumer.member import member_from_record
from coordinator.groups.consumer.record_schemas import ConsumerGroupMemberMetadataValue
from coordinator.groups.record_schemas import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    RECORD_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.codec.codec import decode, encode
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import DecodeError

PREFIX_BYTES = 2

KEYS = [
    (
        LEGACY_OFFSET_COMMIT,
        LegacyOffsetCommitKey(group="my-group", topic="flights", partition=5),
        "0000 00086d792d67726f7570 0007666c6967687473 00000005",
    ),
    (
        OFFSET_COMMIT,
        OffsetCommitKey(group="my-group", topic="flights", partition=5),
        "0001 00086d792d67726f7570 0007666c6967687473 00000005",
    ),
    (GROUP_METADATA, GroupMetadataKey(group="my-group"), "0002 00086d792d67726f7570"),
]

LEGACY_OFFSET = LegacyOffsetCommitValue(offset=42, metadata="note", commit_timestamp=1_700_000_000_000)
LEGACY_OFFSET_HEX = "0000 000000000000002a 00046e6f7465 0000018bcfe56800"

OFFSET = OffsetCommitValue(
    offset=42,
    leader_epoch=7,
    metadata="note",
    commit_timestamp=1_700_000_000_000,
    expire_timestamp=1_700_000_060_000,
    topic_id=bytes(range(1, 17)),
)
OFFSET_HEX = {
    0: "0000 000000000000002a 00046e6f7465 0000018bcfe56800",
    1: "0001 000000000000002a 00046e6f7465 0000018bcfe56800 0000018bcfe65260",
    2: "0002 000000000000002a 00046e6f7465 0000018bcfe56800",
    3: "0003 000000000000002a 00000007 00046e6f7465 0000018bcfe56800",
    4: "0004 000000000000002a 00000007 056e6f7465 0000018bcfe56800 01 00 10 0102030405060708090a0b0c0d0e0f10",
}

GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="c-1-id",
    current_state_timestamp=1_700_000_000_000,
    members=[
        MemberMetadata(
            member_id="c-1-id",
            group_instance_id="static-1",
            client_id="c-1",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=b"\x00\x01\x02",
            assignment=b"\x03\x04",
        )
    ],
)
GROUP_HEX = {
    0: "00000008636f6e73756d657200000003000572616e67650006632d312d6964"
    "000000010006632d312d69640003632d31000a2f3132372e302e302e31"
    "0000afc800000003000102000000020304",
    1: "00010008636f6e73756d657200000003000572616e67650006632d312d6964"
    "000000010006632d312d69640003632d31000a2f3132372e302e302e31"
    "000493e00000afc800000003000102000000020304",
    2: "00020008636f6e73756d657200000003000572616e67650006632d312d69640000018bcfe56800"
    "000000010006632d312d69640003632d31000a2f3132372e302e302e31"
    "000493e00000afc800000003000102000000020304",
    3: "00030008636f6e73756d657200000003000572616e67650006632d312d69640000018bcfe56800"
    "000000010006632d312d696400087374617469632d310003632d31000a2f3132372e302e302e31"
    "000493e00000afc800000003000102000000020304",
    4: "000409636f6e73756d6572000000030672616e676507632d312d69640000018bcfe56800"
    "0207632d312d6964097374617469632d3104632d310b2f3132372e302e302e31"
    "000493e00000afc8040001020303040000",
}


def body(prefixed_hex: str) -> bytes:
    return bytes.fromhex(prefixed_hex)[PREFIX_BYTES:]


@pytest.mark.parametrize(("record_type", "key", "prefixed_hex"), KEYS)
def test_a_key_has_kafkas_bytes(record_type: int, key: Any, prefixed_hex: str) -> None:
    assert bytes.fromhex(prefixed_hex)[:PREFIX_BYTES] == record_type.to_bytes(PREFIX_BYTES, "big")
    assert encode(key, 0) == body(prefixed_hex)
    assert decode(type(key), 0, body(prefixed_hex)) == key


def test_a_legacy_offset_has_kafkas_bytes() -> None:
    assert encode(LEGACY_OFFSET, 0) == body(LEGACY_OFFSET_HEX)
    assert decode(LegacyOffsetCommitValue, 0, body(LEGACY_OFFSET_HEX)) == LEGACY_OFFSET


@pytest.mark.parametrize("version", range(5))
def test_an_offset_has_kafkas_bytes_in_every_version(version: int) -> None:
    """What a version cannot carry is left out without complaint: a broker may have to write an old one."""
    assert encode(OFFSET, version) == body(OFFSET_HEX[version])
    assert decode(OffsetCommitValue, version, body(OFFSET_HEX[version])) == replace(
        OFFSET,
        leader_epoch=7 if version >= 3 else -1,
        expire_timestamp=OFFSET.expire_timestamp if version == 1 else -1,
        topic_id=OFFSET.topic_id if version >= 4 else ZERO_UUID,
    )


def test_an_offset_without_a_topic_id_writes_no_tag() -> None:
    value = OffsetCommitValue(offset=42, metadata="", commit_timestamp=1_700_000_000_000)
    prefixed_hex = "0004 000000000000002a ffffffff 01 0000018bcfe56800 00"
    assert encode(value, 4) == body(prefixed_hex)
    assert decode(OffsetCommitValue, 4, body(prefixed_hex)) == value


@pytest.mark.parametrize("version", range(5))
def test_group_metadata_has_kafkas_bytes_in_every_version(version: int) -> None:
    assert encode(GROUP, version) == body(GROUP_HEX[version])
    member = replace(
        GROUP.members[0],
        group_instance_id="static-1" if version >= 3 else None,
        rebalance_timeout=300_000 if version >= 1 else -1,
    )
    assert decode(GroupMetadataValue, version, body(GROUP_HEX[version])) == replace(
        GROUP, current_state_timestamp=1_700_000_000_000 if version >= 2 else -1, members=[member]
    )


def test_a_group_that_was_only_just_made_has_kafkas_bytes() -> None:
    """No protocol and no leader yet: both null."""
    group = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=1_700_000_000_000,
        members=[],
    )
    prefixed_hex = "0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000"
    assert encode(group, 3) == body(prefixed_hex)
    assert decode(GroupMetadataValue, 3, body(prefixed_hex)) == group


@pytest.mark.parametrize("version", range(5))
def test_a_torn_group_is_refused(version: int) -> None:
    whole = body(GROUP_HEX[version])
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            decode(GroupMetadataValue, version, whole[:end])


def test_every_record_type_that_kafka_writes_has_a_name() -> None:
    """docs/kafka.md section 5: types 0 to 23 with gaps at 9 and 18."""
    assert set(RECORD_TYPES) == set(range(24)) - {9, 18}
    assert len(set(RECORD_TYPES.values())) == len(RECORD_TYPES)
    assert RECORD_TYPES[OFFSET_COMMIT] == "OffsetCommit"
    assert RECORD_TYPES[GROUP_METADATA] == "GroupMetadata"
    assert RECORD_TYPES[LEGACY_OFFSET_COMMIT] == "LegacyOffsetCommit"


def test_a_member_that_is_no_classic_one_says_so() -> None:
    """By a null in tag 0: where that is missing Kafka reads an empty one, of a classic member."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        server_assignor=None,
        classic_member_metadata=None,
    )
    encoded = encode(value, 0)
    assert encoded.hex(" ") == "00 00 02 63 03 2f 68 02 02 74 01 ff ff ff ff 00 01 00 01 00"
    without = decode(ConsumerGroupMemberMetadataValue, 0, encoded[:-4] + b"\0")
    assert without.classic_member_metadata is not None
    assert member_from_record("m", without).classic is None, (
        "one that offers no protocol cannot be a classic one"
    )
