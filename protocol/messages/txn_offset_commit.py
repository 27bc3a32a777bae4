"""TxnOffsetCommit (key 28): store how far a group has read, as a part of a producer's transaction (KIP-98).

The offsets count when the transaction is committed, and never if it is aborted.

| version | what is new |
|---|---|
| 0 | the baseline |
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | the leader epoch of the record before the offset (KIP-320) |
| 3 | flexible; who commits for the group: generation, member id, group instance id (KIP-447) |
| 4 | TRANSACTION_ABORTABLE (KIP-890) |
| 5 | the offsets partition is added to the transaction by the broker (KIP-890, transactions v2) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class TxnOffsetCommitRequestPartition:
    """`committed_offset` is the next offset to read, not the last one read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)  # -1: not known.
    committed_metadata: str | None = ""  # The client's own note; null is stored as "".


@struct
class TxnOffsetCommitRequestTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


@request(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Offsets of one group to store in the transaction of one producer."""

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    """The result for one topic."""

    name: str
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@response(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """One entry per partition; an error of the whole request is repeated for each of them."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
