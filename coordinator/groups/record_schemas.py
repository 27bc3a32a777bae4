"""The records of `__consumer_offsets`: the shape of every key and value that Muster writes or reads.

A key is an int16 record type and then a body, never flexible; a value is an int16 version and then a
body of that version. The classes are the bodies; the prefixes, and what a record means, belong to
`records` and to the shard. Kafka numbers all record types in one space: those of other kinds of groups
are named here, so that a reader can say what it skips, and are otherwise unknown to us.

All times are ms since the epoch, all timeouts ms, though Kafka's names leave the unit out.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from protocol.codec.codec import data, since, struct
from protocol.codec.primitives import ZERO_UUID, Int32, Int64, Uuid

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

RECORD_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        LEGACY_OFFSET_COMMIT: "LegacyOffsetCommit",
        OFFSET_COMMIT: "OffsetCommit",
        GROUP_METADATA: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        19: "StreamsGroupMemberMetadata",
        20: "StreamsGroupTargetAssignmentMetadata",
        21: "StreamsGroupTargetAssignmentMember",
        22: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    }
)
"""Every record type of Kafka 4.3, under Kafka's name; 9 and 18 are gaps."""


@data(versions="0", flexible="none")
class LegacyOffsetCommitKey:
    """Key of type 0, from old brokers: read with the meaning of type 1, never written."""

    group: str
    topic: str
    partition: Int32


@data(versions="0", flexible="none")
class LegacyOffsetCommitValue:
    """Value of type 0: offset, metadata and commit time."""

    offset: Int64
    metadata: str
    commit_timestamp: Int64


@data(versions="0", flexible="none")
class OffsetCommitKey:
    """Key of type 1: one group's committed offset in one partition."""

    group: str
    topic: str
    partition: Int32


@data(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """Value of type 1. Only version 1 has `expire_timestamp`, set where an old client asked for a retention."""

    offset: Int64
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = since(4, tag=0, default=ZERO_UUID, ignorable=True)


@data(versions="0", flexible="none")
class GroupMetadataKey:
    """Key of type 2: one classic group."""

    group: str


@struct
class MemberMetadata:
    """A member of a stored generation, with the metadata of the chosen protocol alone."""

    member_id: str
    group_instance_id: str | None = since(3, default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)  # -1: as the session timeout.
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


@data(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """Value of type 2: the group after the assignment of a generation was stored, or without members."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata]
