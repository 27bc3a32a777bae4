"""OffsetFetch (key 9): read back what groups have committed.

Up to version 7 a request asks for one group and the answer is flat; from version 8 on both carry a
list of groups (KIP-709), and the flat fields are gone. A null list of topics asks for every
partition that has an offset. Version 0 (offsets kept in ZooKeeper) is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: offsets come from `__consumer_offsets`; errors only per partition |
| 2 | topics may be null; an error for the group as a whole (KIP-88) |
| 3 | throttle time in the answer |
| 4 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 5 | the leader epoch committed with the offset (KIP-320) |
| 6 | flexible |
| 7 | `require_stable`: offsets of open transactions are reported as unstable (KIP-447) |
| 8 | several groups at once |
| 9 | members of the new protocol say who they are, with their epoch (KIP-848) |
| 10 | topics go by id and no longer by name (KIP-848) |
"""

from collections.abc import Sequence
from dataclasses import field

from protocol.codec.codec import packed, request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid


@struct
class OffsetFetchRequestTopic:
    """One topic, versions up to 7."""

    name: str
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestTopics:
    """One topic of one group, from version 8 on: `name` up to 9, `topic_id` after."""

    name: str = since(8, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    """One group. A member id is given, and then checked, only under the new protocol."""

    group_id: str
    member_id: str | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@request(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """The group and topics asked for: flat up to version 7, in `groups` after."""

    group_id: str = since(0, until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = since(0, until=7, nullable="2+", default_factory=list)
    groups: list[OffsetFetchRequestGroup] = since(8, default_factory=list)

    require_stable: bool = since(7, default=False)


@packed
@struct
class OffsetFetchResponsePartition:
    """One partition, versions up to 7. Nothing committed: offset -1, metadata "", no error."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: str | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    """One topic, versions up to 7."""

    name: str
    partitions: Sequence[OffsetFetchResponsePartition]


@packed
@struct
class OffsetFetchResponsePartitions:
    """One partition of one group, from version 8 on. Nothing committed: as in the flat form."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: str | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """One topic of one group, named as the request named it."""

    name: str = since(8, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    """One group's offsets, or the error that stands for all of them."""

    group_id: str
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    """Offsets: flat up to version 7, in `groups` after."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = since(0, until=7, default_factory=list)
    # Version 1 has no place for it: there a group's error is repeated in each partition.
    error_code: Int16 = since(2, until=7, default=0, ignorable=True)

    groups: list[OffsetFetchResponseGroup] = since(8, default_factory=list)
