"""ElectLeaders (key 43), answered as by a Kafka of one node, which leads all partitions."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.topic_lookup import TopicLookup
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ELECTION_TYPES = frozenset(ElectionType)
NOT_NEEDED = "Leader election not needed for topic partition."


def elect_leaders(broker: Broker, request: ElectLeadersRequest, pending: ClientRequest) -> None:
    """Answer that no election is needed. If all partitions are asked for, the answer has topics only, as Kafka's.

    Errors: INVALID_REQUEST (kind of election). Per partition: ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION.
    """
    topics, kind = broker.registry, request.election_type
    error = ErrorCode.NONE if kind in ELECTION_TYPES else ErrorCode.INVALID_REQUEST
    if request.topic_partitions is not None:
        results = [
            _topic_result(topics, kind, each.topic, each.partitions) for each in request.topic_partitions
        ]
    else:
        results = [] if error else [ReplicaElectionResult(topic=topic.name) for topic in topics.all()]
    pending.reply(ElectLeadersResponse(error_code=error, replica_election_results=results))


def _topic_result(
    topics: TopicLookup, kind: int, name: str, partitions: Sequence[int]
) -> ReplicaElectionResult:
    result = ReplicaElectionResult(topic=name)
    for index in partitions:
        error, words = _outcome(topics, kind, name, index)
        result.partition_result.append(
            PartitionResult(partition_id=index, error_code=error, error_message=words)
        )
    return result


def _outcome(topics: TopicLookup, kind: int, name: str, index: int) -> tuple[ErrorCode, str]:
    topic = topics.get(name)
    if kind not in ELECTION_TYPES:
        return ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}"
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if topic.partition(index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED
