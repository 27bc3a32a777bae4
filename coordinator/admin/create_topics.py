"""CreateTopics (key 19): create topics, or only check whether they could be created.

If one topic is refused, in Kafka's words, the others are still created. There is one node, so the replication
factor is 1, and assignments can name that node only.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.admin.mutations import take_partitions
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.assignments import assignment_problem, placement_problem
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.names import CLUSTER_METADATA_TOPIC, is_internal, name_problem
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.registry import new_topic_id
from coordinator.topics.topic_config import TOPIC_KEYS, TopicConfig, topic_config
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DEFAULT: Final = -1
STRICT_SINCE: Final = 6
NODES: Final = 1


def handle(broker: Broker, request: CreateTopicsRequest, pending: ClientRequest) -> None:
    """Create the topics, and answer when they are durable.

    Errors per topic: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_REQUEST (named twice; numbers
    with assignments; the metadata log's name), INVALID_CONFIG, INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION (`max_partitions`), THROTTLING_QUOTA_EXCEEDED,
    KAFKA_STORAGE_ERROR.
    """
    named = Counter(asked.name for asked in request.topics)
    once = {asked.name: asked for asked in request.topics}
    response = CreateTopicsResponse()
    countdown = Countdown(lambda: pending.reply(response))
    for name, asked in once.items():
        result = CreatableTopicResult(name=name, error_message=None)
        response.topics.append(result)
        try:
            if named[name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _create(broker, asked, request.validate_only, result, countdown, pending)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
    countdown.seal()


def _create(
    broker: Broker,
    asked: CreatableTopic,
    validate_only: bool,
    result: CreatableTopicResult,
    countdown: Countdown,
    pending: ClientRequest,
) -> None:
    """Check the request for one topic, then create it, unless `validate_only`. Raises Refused."""
    _check_name(broker, asked.name)
    config = _config(broker, asked)
    partitions = _partitions(broker, asked)
    if not broker.registry.has_room_for(partitions):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"There may be no more than {broker.settings.max_partitions} partitions.",
        )
    take_partitions(pending, partitions, STRICT_SINCE)
    topic_id = new_topic_id()
    if validate_only:
        _describe(result, topic_id, partitions, config)
        return

    def on_created(error: ErrorCode) -> None:
        if error:
            result.error_code, result.error_message = error, "The topic could not be written to the disk."
        else:
            _describe(result, topic_id, partitions, config)
        countdown.end()

    countdown.begin()
    broker.registry.create(asked.name, partitions, config, topic_id, on_created)


def _check_name(broker: Broker, name: str) -> None:
    registry = broker.registry
    if name == CLUSTER_METADATA_TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if registry.get(name) is not None or registry.is_changing(name):
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if is_internal(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' is made by the daemon alone.")
    if other := registry.colliding(name):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
        )


def _config(broker: Broker, asked: CreatableTopic) -> TopicConfig:
    nulls = [entry.name for entry in asked.configs if entry.value is None]
    if nulls:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    try:
        return topic_config(
            {entry.name: entry.value or "" for entry in asked.configs}, broker.registry.settings
        )
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None


def _partitions(broker: Broker, asked: CreatableTopic) -> int:
    """Return the number of partitions that the topic gets. Raises Refused if they cannot be placed."""
    if asked.assignments:
        return _assigned_partitions(broker, asked)
    if asked.replication_factor < DEFAULT or asked.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if asked.num_partitions < DEFAULT or asked.num_partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    is_default = asked.replication_factor == DEFAULT
    replicas = broker.settings.default_replication_factor if is_default else asked.replication_factor
    if replicas > NODES:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
            f"{replicas} cannot be reached because only {NODES} broker(s) are registered.",
        )
    if problem := placement_problem(broker.registry.settings):
        words = f"Unable to replicate the partition {replicas} time(s): {problem}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, words)
    return broker.settings.num_partitions if asked.num_partitions == DEFAULT else asked.num_partitions


def _assigned_partitions(broker: Broker, asked: CreatableTopic) -> int:
    for value, words in (
        (asked.replication_factor, "replication factor"),
        (asked.num_partitions, "numPartitions"),
    ):
        if value != DEFAULT:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {words} was not set to -1.",
            )
    indexes = Counter(assignment.partition_index for assignment in asked.assignments)
    for assignment in asked.assignments:
        if indexes[assignment.partition_index] > 1:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        if problem := assignment_problem(assignment.broker_ids, broker.settings.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if indexes.keys() != set(range(len(indexes))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(indexes)


def _describe(result: CreatableTopicResult, topic_id: bytes, partitions: int, config: TopicConfig) -> None:
    """Fill `result` with the topic that was, or would be, created (from version 5)."""
    result.topic_id = topic_id
    result.num_partitions = partitions
    result.replication_factor = NODES
    result.configs = [
        CreatableTopicConfigs(name=name, value=config.text(name), config_source=config.source(name))
        for name in sorted(TOPIC_KEYS)
    ]
