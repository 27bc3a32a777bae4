"""DescribeQuorum (key 55), the answer: who votes on the cluster's metadata, and how far each has read (KIP-595).

Flexible from its first version.

| version | what is new |
|---|---|
| 1 | when a replica last fetched, and last had all (KIP-836) |
| 2 | error messages, directory ids, and the controllers' endpoints (KIP-853) |
"""

from dataclasses import field

from protocol.codec.codec import response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Int64, Uint16, Uuid


@struct
class ReplicaState:
    """One replica; times are those at the leader, in milliseconds."""

    replica_id: Int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


@struct
class PartitionData:
    """One partition: its leader, voters and observers."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class TopicData:
    """One topic."""

    topic_name: str
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class Listener:
    """Where a controller listens."""

    name: str
    host: str
    port: Uint16


@struct
class Node:
    """One controller."""

    node_id: Int32
    listeners: list[Listener] = field(default_factory=list)


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """One entry per topic of the request."""

    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    topics: list[TopicData] = field(default_factory=list)
    nodes: list[Node] = since(2, default_factory=list)
