"""Metadata (key 3): the brokers, and the leader and replicas of each partition.

Nodes and leaders are those of the placement, with addresses of the request's listener. A topic that is
asked for by name and does not exist is created after the answer, if both client and settings allow that: the
answer itself reports it as unknown, as in Kafka, and the client retries.
"""

from __future__ import annotations

from typing import Final

from coordinator.admin.auto_create import create_missing
from coordinator.admin.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.leadership import described
from coordinator.topics.names import is_internal, missing_topic_error
from coordinator.topics.placement import Node
from coordinator.topics.topic import Topic
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

IDS_SINCE: Final = 12  # Versions 10 and 11 have the field, but Kafka refuses ids and null names there.


def handle(broker: Broker, request: MetadataRequest, pending: ClientRequest) -> None:
    """Describe the topics asked for: null stands for all, an empty list for none (in version 0: for all).

    Errors per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
    """
    if request.topics is None or (not request.topics and pending.api_version == 0):
        _reply(broker, request, pending, [_describe(broker, topic) for topic in broker.registry.all()])
    elif pending.api_version < IDS_SINCE and any(_is_by_id(asked) for asked in request.topics):
        pending.reply(MetadataResponse(topics=[_malformed(asked) for asked in request.topics]))
    elif any(asked.topic_id != ZERO_UUID for asked in request.topics):
        _reply(broker, request, pending, [_describe_by_id(broker, asked) for asked in request.topics])
    else:
        _answer_by_name(broker, request, request.topics, pending)


def _answer_by_name(
    broker: Broker, request: MetadataRequest, asked: list[MetadataRequestTopic], pending: ClientRequest
) -> None:
    names = list(dict.fromkeys(topic.name or "" for topic in asked))
    _reply(broker, request, pending, [_describe_by_name(broker, name) for name in names])
    if request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
        create_missing(broker.registry, names)


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


def _malformed(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id
    )


def _describe_by_id(broker: Broker, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    topic = broker.registry.by_id(asked.topic_id)
    if topic is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
        )
    return _describe(broker, topic)


def _describe_by_name(broker: Broker, name: str) -> MetadataResponseTopic:
    topic = broker.registry.get(name)
    if topic is not None:
        return _describe(broker, topic)
    return MetadataResponseTopic(
        error_code=missing_topic_error(name),
        name=name,
        is_internal=is_internal(name),
    )


def _describe(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            described(MetadataResponsePartition, partition, broker.placement)
            for partition in topic.partitions
        ],
    )


def described_node(node: Node, listener: str) -> MetadataResponseBroker:
    """A node as the listener's clients find it."""
    host, port = node.endpoint_for(listener)
    return MetadataResponseBroker(node_id=node.node_id, host=host, port=port, rack=node.rack)


def _reply(
    broker: Broker, request: MetadataRequest, pending: ClientRequest, topics: list[MetadataResponseTopic]
) -> None:
    placement = broker.placement
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[described_node(node, pending.listener) for node in placement.nodes],
        cluster_id=broker.settings.cluster_id,
        controller_id=placement.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    pending.reply(response)
