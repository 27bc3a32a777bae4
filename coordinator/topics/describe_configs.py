"""DescribeConfigs (key 32): the settings of topics and broker, and where each value comes from (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.topics.broker import Broker, Pending
from coordinator.topics.broker_configs import BrokerConfig, broker_configs
from coordinator.topics.names import name_problem
from coordinator.topics.refusal import Refused
from coordinator.topics.topic_config import (
    KAFKA_DEFAULTS,
    TOPIC_KEYS,
    TopicConfig,
    default_source,
    default_text,
)
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

WHOLE_CLUSTER: Final = ""  # As a broker's name: settings that apply to every broker. There are none.


def handle(broker: Broker, request: DescribeConfigsRequest, pending: Pending) -> None:
    """Describe the settings of each resource.

    Errors per resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (another broker,
    or a kind of resource that has no settings here).
    """
    pending.reply(
        DescribeConfigsResponse(results=[_result(broker, request, asked) for asked in request.resources])
    )


def _result(
    broker: Broker, request: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
    try:
        configs = _configs(broker, asked)
    except Refused as refused:
        result.error_code, result.error_message = refused.error, refused.message
        return result
    wanted = set(asked.configuration_keys or ())  # Null and empty both ask for all.
    result.configs = [config for config in configs if not wanted or config.name in wanted]
    for config in result.configs:
        if not request.include_synonyms:
            config.synonyms = []
    return result


def _configs(broker: Broker, asked: DescribeConfigsResource) -> Iterable[DescribeConfigsResourceResult]:
    if asked.resource_type == ConfigResourceType.TOPIC:
        return _topic_configs(broker, asked.resource_name)
    if asked.resource_type == ConfigResourceType.BROKER:
        return _broker_configs(broker, asked.resource_name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Resource type {asked.resource_type} has no settings here.")


def _topic_configs(broker: Broker, name: str) -> list[DescribeConfigsResourceResult]:
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    topic = broker.registry.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return [_topic_setting(topic.config, key) for key in TOPIC_KEYS]


def _topic_setting(config: TopicConfig, name: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=config.text(name),
        config_source=config.source(name),
        synonyms=_topic_synonyms(config, name),
        config_type=TOPIC_KEYS[name].kind.type,
        documentation=None,
    )


def _topic_synonyms(config: TopicConfig, name: str) -> list[DescribeConfigsSynonym]:
    """The topic's own value if it has one, the daemon's if it was given one, and Kafka's default."""
    synonyms: list[DescribeConfigsSynonym] = []

    def add(name: str, value: str, source: ConfigSource) -> None:
        synonyms.append(DescribeConfigsSynonym(name=name, value=value, source=source))

    if name in config.overrides:
        add(name, config.overrides[name], ConfigSource.TOPIC_CONFIG)
    key = TOPIC_KEYS[name]
    if key.broker_name is None:
        return synonyms
    if default_source(name, config.settings) is ConfigSource.STATIC_BROKER_CONFIG:
        add(key.broker_name, default_text(name, config.settings), ConfigSource.STATIC_BROKER_CONFIG)
    if not key.is_unset_by_default:
        add(key.broker_name, default_text(name, KAFKA_DEFAULTS), ConfigSource.DEFAULT_CONFIG)
    return synonyms


def _broker_configs(broker: Broker, name: str) -> list[DescribeConfigsResourceResult]:
    if name == WHOLE_CLUSTER:
        return []
    try:
        broker_id = int(name)
    except ValueError:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    node_id = broker.settings.node_id
    if broker_id != node_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    return [_broker_setting(config) for config in broker.broker_configs or broker_configs(broker.settings)]


def _broker_setting(config: BrokerConfig) -> DescribeConfigsResourceResult:
    default = ConfigSource.DEFAULT_CONFIG
    source = default if config.is_default else ConfigSource.STATIC_BROKER_CONFIG
    values = {source: config.value, default: config.default}
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=source,
        synonyms=[
            DescribeConfigsSynonym(name=config.name, value=value, source=where)
            for where, value in values.items()
            if value is not None
        ],
        config_type=config.type,
        documentation=None,
    )
