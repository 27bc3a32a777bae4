"""OffsetCommit (key 8): store how far a group has read.

A member commits with its id and generation; a consumer that manages its partitions by itself
commits with generation -1 and no member id. Versions 0 and 1 are gone since Kafka 4.0.

| version | what is new |
|---|---|
| 2 | the baseline: the client may say how long offsets are kept |
| 3 | throttle time in the answer |
| 4 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 5 | the retention time leaves: the broker's setting decides (KIP-211) |
| 6 | the leader epoch of the record before the offset (KIP-320) |
| 7 | static members: the group instance id (KIP-345) |
| 8 | flexible |
| 9 | members of the new protocol commit too, with their epoch (KIP-848); GROUP_ID_NOT_FOUND for all |
| 10 | topics go by id and no longer by name (KIP-848) |
"""

from collections.abc import Sequence
from dataclasses import field

from protocol.codec.codec import packed, request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid


@packed
@struct
class OffsetCommitRequestPartition:
    """`committed_offset` is the next offset to read, not the last one read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)  # -1: not known.
    committed_metadata: str | None = ""  # The client's own note; null is stored as "".


@struct
class OffsetCommitRequestTopic:
    """One topic: `name` up to version 9, `topic_id` after."""

    name: str = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitRequestPartition]


@request(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Offsets to store for one group."""

    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = since(7, default=None)

    retention_time_ms: Int64 = since(2, until=4, default=-1, ignorable=True)  # -1: as the broker is set.

    topics: list[OffsetCommitRequestTopic]


@packed
@struct
class OffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    """One topic, named as the request named it."""

    name: str = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitResponsePartition] = field(default_factory=list)


@response(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    """One entry per partition; an error of the whole group is repeated for each of them."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
