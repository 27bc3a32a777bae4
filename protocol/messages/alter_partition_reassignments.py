"""AlterPartitionReassignments (key 45): have partitions kept by other brokers, or give that up (KIP-455).

| version | what is new |
|---|---|
| 1 | whether the number of replicas may change |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32


@struct
class ReassignablePartition:
    """One partition and the brokers that shall keep it; null gives up a reassignment that is under way."""

    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[ReassignablePartition] = field(default_factory=list)


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """The partitions to reassign."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse:
    """Whether the reassignment of one partition was begun."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = ""


@struct
class ReassignableTopicResponse:
    """One topic and its partitions."""

    name: str
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
