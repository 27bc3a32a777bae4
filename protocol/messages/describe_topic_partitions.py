"""DescribeTopicPartitions (key 75): topics in pages, for admin clients (KIP-966).

The answer holds at most so many partitions; a cursor says where the next page starts. There is one
version, and it is flexible.
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Uuid
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR


@struct
class DescribeTopicPartitionsRequestTopic:
    """One topic."""

    name: str


@struct
class Cursor:
    """Where a page starts: topics go in the order of their names."""

    topic_name: str
    partition_index: Int32


@request(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """The topics asked for (all, if the list is empty), and where the page starts."""

    topics: list[DescribeTopicPartitionsRequestTopic] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    """One partition; null lists of eligible leaders mean that the cluster keeps none."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    """One topic; its id is zero where the name is unknown."""

    error_code: Int16 = 0
    name: str | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = OPERATIONS_NOT_ASKED_FOR


@response(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """One page; a null `next_cursor` says that it is the last."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None
