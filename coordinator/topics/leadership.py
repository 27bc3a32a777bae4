"""ElectLeaders (key 43) and ListPartitionReassignments (key 46), as one node that leads all answers them."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.topics.broker import Broker, Pending
from coordinator.topics.registry import TopicRegistry
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

ELECTION_TYPES = frozenset(ElectionType)
NOT_NEEDED = "Leader election not needed for topic partition."


def elect_leaders(broker: Broker, request: ElectLeadersRequest, pending: Pending) -> None:
    """No election is ever needed; asked for all partitions, only the topics are told, as Kafka does.

    Errors: INVALID_REQUEST (kind of election). Per partition: ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION.
    """
    registry = broker.registry
    if request.election_type not in ELECTION_TYPES:
        pending.reply(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    elif request.topic_partitions is None:
        topics = [ReplicaElectionResult(topic=topic.name) for topic in registry.all()]
        pending.reply(ElectLeadersResponse(replica_election_results=topics))
    else:
        topics = [_elected(registry, asked.topic, asked.partitions) for asked in request.topic_partitions]
        pending.reply(ElectLeadersResponse(replica_election_results=topics))


def _elected(registry: TopicRegistry, name: str, partitions: Sequence[int]) -> ReplicaElectionResult:
    topic = registry.get(name)
    result = ReplicaElectionResult(topic=name)
    for index in partitions:
        error, words = ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED
        if topic is None:
            error, words = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
        elif topic.partition(index) is None:
            error, words = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        result.partition_result.append(
            PartitionResult(partition_id=index, error_code=error, error_message=words)
        )
    return result


def list_reassignments(
    _broker: Broker, _request: ListPartitionReassignmentsRequest, pending: Pending
) -> None:
    """Nothing moves where there is nowhere to go."""
    pending.reply(ListPartitionReassignmentsResponse(error_message=None))
