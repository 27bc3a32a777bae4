"""ElectLeaders (key 43): elect the preferred, or any living, replica as the leader of partitions (KIP-183).

| version | what is new |
|---|---|
| 1 | the kind of election, and an error of the whole answer (KIP-460) |
| 2 | flexible |
"""

from dataclasses import field
from enum import IntEnum

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32
from protocol.messages.shared import TopicPartitions


class ElectionType(IntEnum):
    """Which kind of replica to elect."""

    PREFERRED = 0
    UNCLEAN = 1


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """The partitions to elect leaders of; null asks for all."""

    election_type: Int8 = since(1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60_000


@struct
class PartitionResult:
    """The result for one partition."""

    partition_id: Int32
    error_code: Int16 = 0
    error_message: str | None = ""


@struct
class ReplicaElectionResult:
    """One topic and its partitions."""

    topic: str
    partition_result: list[PartitionResult] = field(default_factory=list)


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
