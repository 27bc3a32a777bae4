"""CreatePartitions (key 37): give topics more partitions, never fewer (KIP-195)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.admin.mutations import take_partitions
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.assignments import assignment_problem, placement_problem
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.topic import Topic
from protocol.errors import ErrorCode, OnDone
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_SINCE: Final = 3


def handle(broker: Broker, request: CreatePartitionsRequest, pending: ClientRequest) -> None:
    """Add partitions, and answer when they are durable.

    Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (internal), INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST (named twice), POLICY_VIOLATION (`max_partitions`),
    REASSIGNMENT_IN_PROGRESS (the topic is being changed already), THROTTLING_QUOTA_EXCEEDED,
    KAFKA_STORAGE_ERROR.
    """
    named = Counter(asked.name for asked in request.topics)
    once = {asked.name: asked for asked in request.topics}
    response = CreatePartitionsResponse()
    countdown = Countdown(lambda: pending.reply(response))
    for name, asked in once.items():
        result = CreatePartitionsTopicResult(name=name)
        response.results.append(result)
        try:
            if named[name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _checked(broker, asked, pending)
            if not request.validate_only:
                countdown.begin()
                broker.registry.grow(topic, asked.count, _on_grown(result, countdown))
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
    countdown.seal()


def _on_grown(result: CreatePartitionsTopicResult, countdown: Countdown) -> OnDone:
    def on_grown(error: ErrorCode) -> None:
        result.error_code = error
        countdown.end()

    return on_grown


def _checked(broker: Broker, asked: CreatePartitionsTopic, pending: ClientRequest) -> Topic:
    topic = broker.registry.get(asked.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:  # Groups and transactional ids are spread over its partitions by their number.
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' keeps its partitions.")
    added = _added_count(topic, asked)
    _check_assignments(broker, asked, added)
    if not broker.registry.has_room_for(added):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"There may be no more than {broker.settings.max_partitions} partitions.",
        )
    if broker.registry.is_changing(topic.name):
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, "The topic is being changed.")
    take_partitions(pending, added, STRICT_SINCE)
    return topic


def _added_count(topic: Topic, asked: CreatePartitionsTopic) -> int:
    current = len(topic.partitions)
    if asked.count == current:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if asked.count < current:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    return asked.count - current


def _check_assignments(broker: Broker, asked: CreatePartitionsTopic, added: int) -> None:
    if asked.assignments is None:
        if problem := placement_problem(broker.registry.settings):
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
        return
    if len(asked.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), "
            f"but only {len(asked.assignments)} assignment(s) were specified.",
        )
    for assignment in asked.assignments:
        if problem := assignment_problem(assignment.broker_ids, broker.settings.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
