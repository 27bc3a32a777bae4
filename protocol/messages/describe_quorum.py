"""DescribeQuorum (key 55): who votes on the cluster's metadata, and how far each has read (KIP-595).

Flexible from its first version.

| version | what is new |
|---|---|
| 1 | when a replica last fetched, and last had all (KIP-836) |
| 2 | error messages, directory ids, and the controllers' endpoints (KIP-853) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from protocol.messages.shared import ControllerListener


@struct
class QuorumPartitionRequest:
    """One partition asked about."""

    partition_index: Int32


@struct
class QuorumTopicRequest:
    """One topic asked about: only the metadata log has a quorum."""

    topic_name: str
    partitions: list[QuorumPartitionRequest] = field(default_factory=list)


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """The partitions to describe."""

    topics: list[QuorumTopicRequest] = field(default_factory=list)


@struct
class QuorumReplica:
    """One replica; times are those at the leader, in milliseconds."""

    replica_id: Int32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


@struct
class QuorumPartition:
    """One partition: its leader, voters and observers."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[QuorumReplica] = field(default_factory=list)
    observers: list[QuorumReplica] = field(default_factory=list)


@struct
class QuorumTopic:
    """One topic and its partitions."""

    topic_name: str
    partitions: list[QuorumPartition] = field(default_factory=list)


@struct
class Node:
    """One controller."""

    node_id: Int32
    listeners: list[ControllerListener] = field(default_factory=list)


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """One entry per topic of the request."""

    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    topics: list[QuorumTopic] = field(default_factory=list)
    nodes: list[Node] = since(2, default_factory=list)
