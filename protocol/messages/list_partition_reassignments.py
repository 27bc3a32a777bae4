"""ListPartitionReassignments (key 46): which partitions are moving between brokers (KIP-455)."""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32


@struct
class ListPartitionReassignmentsTopics:
    """One topic and its partitions asked about."""

    name: str
    partition_indexes: list[Int32] = field(default_factory=list)


@request(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """The partitions asked about; null asks for all."""

    timeout_ms: Int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None


@struct
class OngoingPartitionReassignment:
    """One partition that is moving."""

    partition_index: Int32
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    """One topic and its partitions."""

    name: str
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """Only partitions that are moving."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
