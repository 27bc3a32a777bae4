"""DeleteTopics (key 20): delete topics by name or, from version 6, by id.

A deleted topic is gone for all clients when the answer leaves; the registry reports it to the groups, which delete
their offsets for it (docs/kafka.md O23). Internal topics cannot be deleted.
"""

from __future__ import annotations

from collections import Counter

from coordinator.admin.mutations import take_partitions
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.topic import Topic
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode, OnDone
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

TOPIC_STATES_SINCE = 6
STRICT_SINCE = 5
DISABLED_SINCE = 3  # Before this version, clients do not know TOPIC_DELETION_DISABLED.
NO_TOPIC = "This server does not host this topic-partition."
NO_TOPIC_ID = "This server does not host this topic ID."


def handle(broker: Broker, request: DeleteTopicsRequest, pending: ClientRequest) -> None:
    """Delete the topics, and answer when their deletion is durable.

    Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_REQUEST (both name and id,
    neither, or named twice), INVALID_TOPIC_EXCEPTION (internal), TOPIC_DELETION_DISABLED
    (delete.topic.enable), REASSIGNMENT_IN_PROGRESS (the topic is being changed already),
    THROTTLING_QUOTA_EXCEEDED, KAFKA_STORAGE_ERROR.
    """
    if pending.api_version >= TOPIC_STATES_SINCE:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((each.name, each.topic_id) for each in asked)
    response = DeleteTopicsResponse()
    countdown = Countdown(lambda: pending.reply(response))
    for (name, topic_id), times_named in named.items():
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        response.responses.append(result)
        try:
            topic = _checked(broker, name, topic_id, times_named, pending.api_version)
            result.name, result.topic_id = topic.name, topic.topic_id
            take_partitions(pending, len(topic.partitions), STRICT_SINCE)
            countdown.begin()
            broker.registry.delete(topic, _on_deleted(result, countdown))
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
    countdown.seal()


def _on_deleted(result: DeletableTopicResult, countdown: Countdown) -> OnDone:
    def on_deleted(error: ErrorCode) -> None:
        result.error_code = error
        countdown.end()

    return on_deleted


def _checked(broker: Broker, name: str | None, topic_id: bytes, times_named: int, version: int) -> Topic:
    """Return the topic if it may be deleted. Raises Refused."""
    if not broker.settings.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        raise Refused(error, "Topic deletion is disabled.")
    topic = _found(broker, name, topic_id, times_named)
    if topic.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' cannot be deleted.")
    if broker.registry.is_changing(topic.name):
        raise Refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, "The topic is being changed.")
    return topic


def _found(broker: Broker, name: str | None, topic_id: bytes, times_named: int) -> Topic:
    if name is None and topic_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if times_named > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    topic = broker.registry.by_id(topic_id) if name is None else broker.registry.get(name)
    if topic is None:
        is_by_id = name is None
        error = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Refused(error, NO_TOPIC_ID if is_by_id else NO_TOPIC)
    return topic
