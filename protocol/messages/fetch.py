"""Fetch (key 1): read record batches from partitions, waiting for them if need be.

From version 7 on a client may hold a fetch session: it then names only what changed since its
last request, and is answered only for partitions with news (KIP-227). Consumers and follower brokers
use the same API; a consumer's replica id is -1. Versions 0 to 3 are gone since Kafka 4.0.

| version | what is new |
|---|---|
| 4 | the baseline: magic 2, the isolation level, aborted transactions (KIP-98) |
| 5 | log start offsets (KIP-107) |
| 6 | clients understand KAFKA_STORAGE_ERROR (KIP-112) |
| 7 | fetch sessions (KIP-227) |
| 8 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 9 | the leader epoch the client knows, for fencing (KIP-320) |
| 10 | batches may be compressed with zstd (KIP-110) |
| 11 | the client's rack; a nearer replica to read from (KIP-392) |
| 12 | flexible; finding out where logs diverged, and the present leader (KIP-595) |
| 13 | topics go by id and no longer by name (KIP-516) |
| 14 | clients understand OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405) |
| 15 | the replica's id moves into a tagged field with its epoch (KIP-903) |
| 16 | addresses of the leaders that the answer names (KIP-951) |
| 17 | the replica's log directory (KIP-853) |
| 18 | the high watermark the replica knows (KIP-1166) |
"""

from dataclasses import field
from typing import Final

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, Records, Uuid
from protocol.messages.shared import LeaderIdAndEpoch, NodeEndpoint

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1


@struct
class FetchReplicaState:
    """The broker that sends the request, if a follower does and not a consumer."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    """One partition and where to read from. Only replicas fill in what they know of the log."""

    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32

    replica_directory_id: Uuid = since(17, tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: Int64 = since(18, tag=1, default=MAX_INT64, ignorable=True)


@struct
class FetchTopic:
    """One topic: `topic` up to version 12, `topic_id` after."""

    topic: str = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions that leave the fetch session."""

    topic: str = since(7, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


@request(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """What to read, how much of it, and how long to wait until `min_bytes` are there."""

    cluster_id: str | None = since(12, tag=0, default=None, ignorable=True)
    replica_id: Int32 = since(0, until=14, default=-1)
    replica_state: FetchReplicaState = since(15, tag=1, default_factory=FetchReplicaState)

    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = MAX_INT32  # Bytes of the whole answer; the first batch is sent even if it is larger.
    isolation_level: Int8 = 0  # 0 read uncommitted, 1 read committed.

    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)  # -1: no session, 0: open one.
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = since(7, default_factory=list)

    rack_id: str = since(11, default="", ignorable=True)


@struct
class DivergingEpoch:
    """The last epoch at or below the asked one, and where it ended."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class SnapshotId:
    """The snapshot to fetch first; only the metadata log has any."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class FetchAbortedTransaction:
    """A read-committed client drops this producer's records from this offset to its abort marker."""

    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    """What was read of one partition."""

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)

    diverging_epoch: DivergingEpoch = since(12, tag=0, default_factory=DivergingEpoch)
    current_leader: LeaderIdAndEpoch = since(12, tag=1, default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = since(12, tag=2, default_factory=SnapshotId)

    aborted_transactions: list[FetchAbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records = b""  # Empty, not null, where there is nothing: librdkafka chokes on null.


@struct
class FetchableTopicResponse:
    """One topic, named as the request named it."""

    topic: str = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    """What was read, and the session it belongs to (0: none)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)

    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = since(16, tag=0, default_factory=list)
