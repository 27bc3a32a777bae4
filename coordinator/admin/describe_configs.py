"""DescribeConfigs (key 32): what is set of topics, groups, the broker, and where values come from (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics import client_metrics_configs
from coordinator.topics.broker_configs import BrokerConfig, broker_configs
from coordinator.topics.config_values import ValueKind
from coordinator.topics.dynamic_kinds import CHANGEABLE, kind_of
from coordinator.topics.dynamic_settings import plain_text, values_of
from coordinator.topics.group_configs import GROUP_KEYS, GroupKey, current_text
from coordinator.topics.listener_kinds import parts_of
from coordinator.topics.names import name_problem
from coordinator.topics.refusal import Refused
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic_config import TOPIC_KEYS, TopicConfig
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

WHOLE_CLUSTER: Final = ""  # In place of a broker's id: settings that apply to every broker.
OLDER_NAMES: Final = {
    "log.retention.ms": ("log.retention.hours", "168"),
    "log.roll.ms": ("log.roll.hours", "168"),
    "log.roll.jitter.ms": ("log.roll.jitter.hours", "0"),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", "9223372036854775807"),
}
"""Settings whose own default is null in Kafka, and the older setting that has the default instead."""


def handle(broker: Broker, request: DescribeConfigsRequest, pending: ClientRequest) -> None:
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
    wanted = set(asked.configuration_keys or ())  # Null and empty both stand for all.
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
    if asked.resource_type == ConfigResourceType.GROUP:
        return _group_configs(broker, asked.resource_name)
    if asked.resource_type == ConfigResourceType.CLIENT_METRICS:
        return _subscription_configs(broker, asked.resource_name)
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
    """Return the topic's own value if it has one, then the daemon's values, the current one first."""
    key, settings = TOPIC_KEYS[name], config.settings
    synonyms: list[DescribeConfigsSynonym] = []
    if name in config.overrides:
        synonyms.append(_synonym(name, config.overrides[name], ConfigSource.TOPIC_CONFIG))
    if key.broker_name is None:
        return synonyms
    return synonyms + _synonyms_of(key.broker_name, settings)


def _synonyms_of(name: str, settings: TopicSettings) -> list[DescribeConfigsSynonym]:
    """Return the values of a broker setting by source: the current one first, Kafka's default last.

    Kafka's default may stand under an older name, in other units.
    """
    older = OLDER_NAMES.get(name)
    synonyms = [
        _synonym(name, text, source)
        for text, source in values_of(name, settings)
        if not (older and source is ConfigSource.DEFAULT_CONFIG)
    ]
    if older and synonyms:
        synonyms.append(_synonym(*older, ConfigSource.DEFAULT_CONFIG))
    return synonyms


def _synonyms_for_listener(
    name: str, option: str, settings: TopicSettings, static: Mapping[str, BrokerConfig]
) -> list[DescribeConfigsSynonym]:
    """Return the values of a listener's setting and of the general `option` behind it, source by source."""
    at_run_time = [each for name in (name, option) for each in _synonyms_of(name, settings)]
    given = [_static_synonym(static[name]) for name in (name, option) if _is_given(static.get(name))]
    found = [each for each in at_run_time if each.source is not ConfigSource.STATIC_BROKER_CONFIG] + given
    return sorted(found, key=lambda synonym: synonym.source)


def _is_given(config: BrokerConfig | None) -> bool:
    return config is not None and not config.is_default


def _static_synonym(config: BrokerConfig) -> DescribeConfigsSynonym:
    return _synonym(config.name, config.value, ConfigSource.STATIC_BROKER_CONFIG)


def _synonym(name: str, value: str | None, source: ConfigSource) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _group_configs(broker: Broker, group_id: str) -> list[DescribeConfigsResourceResult]:
    """Return the settings of a group, whether there is such a group or not."""
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    texts, settings = broker.registry.groups.texts(group_id), broker.registry.settings
    return [_group_setting(key, texts, settings) for key in GROUP_KEYS.values()]


def _group_setting(
    key: GroupKey, texts: Mapping[str, str], settings: TopicSettings
) -> DescribeConfigsResourceResult:
    synonyms = (
        [_synonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG)]
        if key.broker_name is None
        else _synonyms_of(key.broker_name, settings)
    )
    if key.name in texts:
        synonyms.insert(0, _synonym(key.name, texts[key.name], ConfigSource.GROUP_CONFIG))
    return DescribeConfigsResourceResult(
        name=key.name,
        value=current_text(key.name, texts, settings),
        config_source=synonyms[0].source,
        synonyms=synonyms,
        config_type=key.kind.type,
        documentation=None,
    )


def node_configs(broker: Broker) -> list[DescribeConfigsResourceResult]:
    """Return all settings of this node, without the values of secret ones."""
    return _broker_configs(broker, str(broker.settings.node_id))


def _subscription_configs(broker: Broker, name: str) -> list[DescribeConfigsResourceResult]:
    """Return the settings of a client metrics subscription, whether there is such a one or not."""
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    texts = broker.registry.client_metrics.texts(name)
    source = ConfigSource.CLIENT_METRICS_CONFIG
    return [
        DescribeConfigsResourceResult(
            name=key,
            value=texts.get(key, client_metrics_configs.DEFAULTS[key]),
            config_source=source if key in texts else ConfigSource.DEFAULT_CONFIG,
            synonyms=[_synonym(key, texts[key], source)] if key in texts else [],
            config_type=kind.type,
            documentation=None,
        )
        for key, kind in client_metrics_configs.KEYS.items()
    ]


def _broker_configs(broker: Broker, name: str) -> list[DescribeConfigsResourceResult]:
    settings = broker.registry.settings
    if name == WHOLE_CLUSTER:
        return [_cluster_setting(key, text) for key, text in sorted(settings.dynamic.of_all.items())]
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
    configs = [
        replace(config, value=broker.bound.get(config.name, config.value))
        for config in broker.broker_configs or broker_configs(broker.settings)
    ]
    dynamic = {*settings.dynamic.of_node, *settings.dynamic.of_all}
    shown = [_broker_setting(config) for config in configs if config.name not in dynamic]
    static = {config.name: config for config in configs}
    return shown + [_dynamic_setting(name, settings, static) for name in sorted(dynamic)]


def _cluster_setting(name: str, text: str) -> DescribeConfigsResourceResult:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return _concealed(
        DescribeConfigsResourceResult(
            name=name,
            value=_canonical(name, text),
            config_source=source,
            synonyms=[_synonym(name, text, source)],
            config_type=_kind(name).type,
            documentation=None,
        )
    )


def _dynamic_setting(
    name: str, settings: TopicSettings, static: Mapping[str, BrokerConfig]
) -> DescribeConfigsResourceResult:
    text, source = next(values_of(name, settings))
    parts = parts_of(name)
    return _concealed(
        DescribeConfigsResourceResult(
            name=name,
            value=_canonical(name, text),
            config_source=source,
            synonyms=_synonyms_of(name, settings)
            if parts is None
            else _synonyms_for_listener(name, parts[1], settings, static),
            config_type=_kind(name).type,
            documentation=None,
        )
    )


def _canonical(name: str, text: str) -> str:
    kind = _kind(name)
    return plain_text(kind.parse(name, text)) if kind.type is ConfigType.BOOLEAN else text.strip()


def _kind(name: str) -> ValueKind:
    kind = kind_of(name)
    assert kind is not None, name
    return kind


def _concealed(shown: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    """Return `shown` without its values if the setting is secret: clients learn only that it is set (F12)."""
    if shown.config_type in (ConfigType.PASSWORD, ConfigType.UNKNOWN):
        shown.is_sensitive, shown.value = True, None
        for synonym in shown.synonyms:
            synonym.value = None
    return shown


def _broker_setting(config: BrokerConfig) -> DescribeConfigsResourceResult:
    source = ConfigSource.DEFAULT_CONFIG if config.is_default else ConfigSource.STATIC_BROKER_CONFIG
    layers = (config,) if config.general is None else (config, config.general)
    synonyms = [_static_synonym(layer) for layer in layers if not layer.is_default]
    if config.default is not None:
        synonyms.append(_synonym(layers[-1].name, config.default, ConfigSource.DEFAULT_CONFIG))
    return _concealed(
        DescribeConfigsResourceResult(
            name=config.name,
            value=config.value,
            read_only=config.name not in CHANGEABLE,
            config_source=source,
            synonyms=synonyms,
            config_type=config.type,
            documentation=None,
        )
    )
