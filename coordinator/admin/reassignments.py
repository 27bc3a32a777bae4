"""Reassignments of replicas, on one node with one log directory: no replica can move.

AlterReplicaLogDirs (key 34), AlterPartitionReassignments (45), ListPartitionReassignments (46): a move to where
the replica already is succeeds, any other is refused, as by a Kafka of one node.
"""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.assignments import assignment_problem
from coordinator.topics.registry import TopicRegistry
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

MOVING_SUFFIX_LENGTH: Final = 40
"""Kafka puts ".<32 digits>-future" behind the directory's name while a replica moves."""
MAX_DIRECTORY_NAME_LENGTH: Final = 255


def alter_replica_log_dirs(
    broker: Broker, request: AlterReplicaLogDirsRequest, pending: ClientRequest
) -> None:
    """AlterReplicaLogDirs (key 34): only the one log directory is accepted; for a partition named twice, the last.

    Errors per partition: INVALID_TOPIC_EXCEPTION (too long a name), LOG_DIR_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION.
    """
    wanted: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                wanted.setdefault(topic.name, {})[index] = directory.path
    results = [
        AlterReplicaLogDirTopicResult(
            topic_name=name,
            partitions=[
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move_error(broker.registry, name, index, path)
                )
                for index, path in paths.items()
            ],
        )
        for name, paths in wanted.items()
    ]
    pending.reply(AlterReplicaLogDirsResponse(results=results))


def _move_error(registry: TopicRegistry, name: str, index: int, path: str) -> ErrorCode:
    if len(f"{name}-{index}") + MOVING_SUFFIX_LENGTH > MAX_DIRECTORY_NAME_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != registry.log_directory:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if registry.partition(name, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def alter_reassignments(
    broker: Broker, request: AlterPartitionReassignmentsRequest, pending: ClientRequest
) -> None:
    """AlterPartitionReassignments (key 45): a reassignment to this node alone succeeds, any other is refused.

    Errors of the whole request: REQUEST_TIMED_OUT (no time to wait). Per partition: UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS (for a cancellation).
    """
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    if request.topics and request.timeout_ms <= 0:
        response.error_code = ErrorCode.REQUEST_TIMED_OUT
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for asked in topic.partitions:
            error, words = _reassigned(broker, topic.name, asked)
            if response.error_code:
                error, words = ErrorCode(response.error_code), None
            answer.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=error, error_message=words
                )
            )
    pending.reply(response)


def _reassigned(broker: Broker, name: str, asked: ReassignablePartition) -> tuple[ErrorCode, str | None]:
    """Return the outcome for one partition: its error and the message."""
    if broker.registry.get(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if broker.registry.partition(name, asked.partition_index) is None:
        words = f"Unable to find partition {name}:{asked.partition_index}."
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words
    if asked.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    if problem := assignment_problem(asked.replicas, broker.settings.node_id):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    return ErrorCode.NONE, None


def list_reassignments(
    _broker: Broker, _request: ListPartitionReassignmentsRequest, pending: ClientRequest
) -> None:
    """ListPartitionReassignments (key 46): answer with an empty list, since no replica can move."""
    pending.reply(ListPartitionReassignmentsResponse(error_message=None))
