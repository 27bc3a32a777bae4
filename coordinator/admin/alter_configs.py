"""AlterConfigs (key 33) and IncrementalAlterConfigs (key 44): change what is set, of topics, groups and others.

A resource's change is checked as a whole and written to the disk, and then applies at once, to open logs too. If
one resource is refused, the others are still changed. Refusals are in Kafka's words. Resources without settings
here (loggers) are refused, and so is every setting of the daemon that would have no effect before the next start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from coordinator.admin.alteration_rights import alteration_refused
from coordinator.admin.config_change import Change, incremental_change, replacement
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics import client_metrics_configs
from coordinator.topics.client_metrics_configs import (
    MAX_METRIC_BYTES,
    MAX_SUBSCRIPTION_NAME_BYTES,
    MAX_SUBSCRIPTIONS,
    METRICS,
    MOST_IN_ALL,
)
from coordinator.topics.client_metrics_registry import ClientMetricsRegistry
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import kind_of
from coordinator.topics.dynamic_settings import NotTakenHere, text_of
from coordinator.topics.group_configs import MAX_GROUP_ID_BYTES, MAX_GROUPS, checked
from coordinator.topics.names import GROUP_EVENTS_TOPIC, is_internal, name_problem
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.registry import DEFAULTS, OnRefusable, TopicRegistry
from coordinator.topics.settings import DynamicSettings, TopicSettings
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import KAFKA_DEFAULTS, TOPIC_KEYS, default_text, topic_config
from protocol.errors import ErrorCode, OnDone
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from protocol.messages.describe_configs import ConfigResourceType, ConfigType
from protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TUNABLE_WHEN_INTERNAL: Final = frozenset(
    {
        *("min.cleanable.dirty.ratio", "delete.retention.ms", "segment.ms"),
        *("min.compaction.lag.ms", "max.compaction.lag.ms"),
    }
)
"""Settings of internal topics that may be changed: those of cleaning. Coordinators rely on the others."""

ELECTED_BY: Final = "min.insync.replicas"
"""A setting that elections depend on: Kafka lets it be set for all nodes together, but not for a single one."""

BeginChange = Callable[[OnRefusable], None]
"""Begins a change, and calls its argument with the outcome later. Raises Refused."""


class RefusedBehindRights(Refused):
    """Raised for a change of the daemon's settings that Kafka takes, or that its controller refuses."""


class Changing(Protocol):
    """Knows which changes are under way: a registry, of topics or of groups."""

    def is_changing(self, name: str, /) -> bool: ...
    def when_changed(self, name: str, done: OnDone, /) -> None: ...


def handle(broker: Broker, request: AlterConfigsRequest, pending: ClientRequest) -> None:
    """AlterConfigs: replace all settings of each resource. Errors are those of `_alter`."""
    _alter(broker, request, pending, AlterConfigsResponse(), replacement)


def handle_incremental(
    broker: Broker, request: IncrementalAlterConfigsRequest, pending: ClientRequest
) -> None:
    """IncrementalAlterConfigs: change some settings of each resource. Errors are those of `_alter`."""
    _alter(broker, request, pending, IncrementalAlterConfigsResponse(), incremental_change)


def _alter(
    broker: Broker, request: Any, pending: ClientRequest, response: Any, change_of: Callable[[Any], Change]
) -> None:
    """Change each resource, or only check the change, and answer after the last one.

    Errors per resource: INVALID_REQUEST (named twice, a setting twice, a null value, an unknown operation or
    kind of resource, another broker, a setting of the daemon that cannot be changed or have that value),
    INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, POLICY_VIOLATION (internal topics; too
    many groups), TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR.
    """
    named = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    countdown = Countdown(lambda: pending.reply(response))
    for asked in request.resources:
        kind, name = asked.resource_type, asked.resource_name
        result = AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
        response.responses.append(result)
        countdown.begin()
        try:
            if named[kind, name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            change = change_of(asked.configs)
            if isinstance(request, IncrementalAlterConfigsRequest):
                _check_logger(asked, pending)
            attempt = _permitted(broker, asked, change, request.validate_only, pending)
            busy = DEFAULTS if kind == ConfigResourceType.BROKER else name
            _begin(_changing(broker, kind), busy, attempt, result, countdown)
        except Refused as refused:
            _refuse(result, refused, countdown)
    countdown.seal()


def _check_logger(asked: Any, pending: ClientRequest) -> None:
    """Raise Refused for a logger that the client has no right to: without loggers, nothing else asks for it."""
    is_logger = asked.resource_type == ConfigResourceType.BROKER_LOGGER
    if is_logger and (refused := alteration_refused(asked.resource_type, asked.resource_name, pending)):
        raise refused


def _permitted(
    broker: Broker, asked: Any, change: Change, validate_only: bool, pending: ClientRequest
) -> BeginChange:
    """Return the function that begins the change, or one that refuses it if the client has no right to it.

    Kafka checks settings of a broker before the right to them, and those of all others behind it. Raises Refused.
    """
    kind, name = asked.resource_type, asked.resource_name
    attempt = _change_starter(broker, kind, name, change, validate_only)
    refused = alteration_refused(kind, name, pending)
    if refused is None:
        return attempt
    if kind != ConfigResourceType.BROKER:
        raise refused
    return lambda _done: _refuse_checked(broker.registry, bool(name), change, refused)


def _refuse_checked(registry: TopicRegistry, of_node: bool, change: Change, refused: Refused) -> None:
    """Raise what Kafka finds wrong with the change before it asks for the right, or else `refused`."""
    with suppress(RefusedBehindRights):
        _checked_defaults(registry, of_node, change)
    raise refused


def _changing(broker: Broker, kind: int) -> Changing:
    if kind == ConfigResourceType.GROUP:
        return broker.registry.groups
    return broker.registry.client_metrics if kind == ConfigResourceType.CLIENT_METRICS else broker.registry


def _begin(
    changing: Changing,
    busy: str,
    attempt: BeginChange,
    result: AlterConfigsResourceResponse,
    countdown: Countdown,
) -> None:
    """Begin the change when no other of the same topic or group, or of the daemon's settings, is under way."""
    if changing.is_changing(busy):
        changing.when_changed(busy, lambda _: _begin(changing, busy, attempt, result, countdown))
        return

    def done(error: ErrorCode, message: str | None = None) -> None:
        result.error_code, result.error_message = error, message
        countdown.end()

    try:
        attempt(done)
    except Refused as refused:
        _refuse(result, refused, countdown)


def _refuse(result: AlterConfigsResourceResponse, refused: Refused, countdown: Countdown) -> None:
    result.error_code, result.error_message = refused.error, refused.message
    countdown.end()


def _change_starter(broker: Broker, kind: int, name: str, change: Change, validate_only: bool) -> BeginChange:
    """Check the resource's kind and name, and return the function that begins its change. Raises Refused."""
    registry = broker.registry
    if kind == ConfigResourceType.TOPIC:
        return lambda done: _alter_topic(registry, name, change, validate_only, done)
    if kind == ConfigResourceType.GROUP:
        return lambda done: _alter_group(registry, name, change, validate_only, done)
    if kind == ConfigResourceType.CLIENT_METRICS:
        return lambda done: _alter_subscription(registry, name, change, validate_only, done)
    if kind != ConfigResourceType.BROKER:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    _check_broker(name, registry.settings.node_id)
    return lambda done: _alter_defaults(registry, bool(name), change, validate_only, done)


# Topics.


def _alter_topic(
    registry: TopicRegistry, name: str, change: Change, validate_only: bool, done: OnDone
) -> None:
    """Check, in Kafka's order, name, settings and that the topic exists; then alter the topic. Raises Refused."""
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    topic = registry.get(name)
    current = {} if topic is None else topic.config.overrides
    overrides = change(current, lambda key, operation: _list_default(key, operation, registry.settings))
    try:
        config = topic_config(overrides, registry.settings)
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    _check_internal(topic, overrides)
    if validate_only or overrides == current:
        done(ErrorCode.NONE)
    else:
        registry.alter(topic, config, done)


def _list_default(name: str, operation: ConfigOperation, settings: TopicSettings) -> str:
    key = TOPIC_KEYS.get(name)
    if key is None or key.kind.type is not ConfigType.LIST:
        raise _not_a_list(name, operation)
    return default_text(name, settings)


def _not_a_list(name: str, operation: ConfigOperation) -> Refused:
    words = f"Can't {operation.name} to key {name} because its type is not LIST."
    return Refused(ErrorCode.INVALID_CONFIG, words)


def _check_internal(topic: Topic, overrides: Mapping[str, str]) -> None:
    if not is_internal(topic.name):
        return
    before = topic.config.overrides
    changed = {name for name in {*before, *overrides} if before.get(name) != overrides.get(name)}
    tunable = frozenset() if topic.name == GROUP_EVENTS_TOPIC else TUNABLE_WHEN_INTERNAL
    if refused := sorted(changed - tunable):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"Topic '{topic.name}' is the daemon's own, its settings cannot be changed: {', '.join(refused)}",
        )


# Groups.


def _alter_group(
    registry: TopicRegistry, group_id: str, change: Change, validate_only: bool, done: OnDone
) -> None:
    """Check, in Kafka's order, operations, name and settings, then room; then alter the group. Raises Refused.

    There need not be such a group.
    """
    groups = registry.groups
    asked = change(groups.texts(group_id), _no_lists)
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    try:
        texts = checked(asked, registry.settings)
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    if texts and len(group_id.encode()) > MAX_GROUP_ID_BYTES:
        words = f"The id of a group with settings has at most {MAX_GROUP_ID_BYTES} bytes."
        raise Refused(ErrorCode.POLICY_VIOLATION, words)
    if texts and not groups.has_room_for(group_id, MAX_GROUPS):
        words = f"There are settings of {MAX_GROUPS} groups already, the most that are kept."
        raise Refused(ErrorCode.POLICY_VIOLATION, words)
    if validate_only or texts == groups.texts(group_id):
        done(ErrorCode.NONE)
    else:
        groups.alter(group_id, texts, done)


def _no_lists(name: str, operation: ConfigOperation) -> str:
    """No setting of groups is a list; those of subscriptions are, but Kafka's table of lists has only topics'."""
    raise _not_a_list(name, operation)


# Client metrics.


def _alter_subscription(
    registry: TopicRegistry, name: str, change: Change, validate_only: bool, done: OnDone
) -> None:
    """Check, in Kafka's order, operations, name and settings, then room; then alter the subscription (KIP-714).

    Raises Refused. One that nothing is set for is none.
    """
    subscriptions = registry.client_metrics
    asked = change(subscriptions.texts(name), _no_lists)
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        texts = client_metrics_configs.parsed(asked)
    except client_metrics_configs.InvalidSubscription as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None
    except InvalidConfig as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    if texts:
        _check_room(subscriptions, name, texts)
    if validate_only or texts == subscriptions.texts(name):
        done(ErrorCode.NONE)
    else:
        subscriptions.alter(name, texts, done)


def _check_room(subscriptions: ClientMetricsRegistry, name: str, texts: Mapping[str, str]) -> None:
    """Raise Refused if the subscription is beyond a bound of Muster's own."""
    words = None
    if len(name.encode()) > MAX_SUBSCRIPTION_NAME_BYTES:
        words = f"The name of a client metrics subscription has at most {MAX_SUBSCRIPTION_NAME_BYTES} bytes."
    elif any(len(each.encode()) > MAX_METRIC_BYTES for each in texts.get(METRICS, "").split(",")):
        words = f"Each of 'metrics' has at most {MAX_METRIC_BYTES} bytes."
    elif not subscriptions.has_room_for(name, MAX_SUBSCRIPTIONS):
        words = f"There are {MAX_SUBSCRIPTIONS} client metrics subscriptions already, the most that are kept."
    elif (key := subscriptions.without_room_for(name, texts)) is not None:
        words = (
            f"All client metrics subscriptions together have at most {MOST_IN_ALL[key]} values of '{key}'."
        )
    if words is not None:
        raise Refused(ErrorCode.POLICY_VIOLATION, words)


# The daemon.


def _check_broker(name: str, node_id: int) -> None:
    """Raise Refused unless `name` is this node's id, or empty, which stands for all brokers."""
    if not name:
        return
    try:
        broker_id = int(name)
    except ValueError:
        words = f"Node id must be an integer, but it is: {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, words) from None
    if broker_id != node_id:
        words = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, words)


def _alter_defaults(
    registry: TopicRegistry, of_node: bool, change: Change, validate_only: bool, done: OnRefusable
) -> None:
    """Change the dynamic settings of this node (`of_node`), or those of all nodes. Raises Refused.

    What was asked for of this node has certificates looked at again, whether it changes anything or not (T35).
    """
    settings = _checked_defaults(registry, of_node, change)

    def on_outcome(error: ErrorCode, message: str | None = None) -> None:
        if of_node and not (error or validate_only):
            registry.touch_node()
        done(error, message)

    if settings.dynamic == registry.settings.dynamic:
        on_outcome(ErrorCode.NONE)
    else:
        registry.alter_defaults(settings, on_outcome, validate_only)


def _checked_defaults(registry: TopicRegistry, of_node: bool, change: Change) -> TopicSettings:
    """Return the daemon's settings after the change, without a look at the disk. Raises Refused."""
    before = registry.settings.dynamic
    texts = change(before.of_node if of_node else before.of_all, _broker_list_default)
    dynamic = DynamicSettings(texts, before.of_all) if of_node else DynamicSettings(before.of_node, texts)
    try:
        settings = registry.checked_defaults(dynamic)
    except NotTakenHere as error:
        raise RefusedBehindRights(ErrorCode.INVALID_REQUEST, str(error)) from None
    except InvalidConfig as error:  # Not INVALID_CONFIG: see KAFKA-13609.
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None
    if ELECTED_BY in dynamic.of_node:
        words = f"Broker-level {ELECTED_BY} cannot be altered while ELR is enabled."
        raise RefusedBehindRights(ErrorCode.INVALID_CONFIG, words)
    return settings


def _broker_list_default(name: str, operation: ConfigOperation) -> str:
    kind = kind_of(name)
    if kind is None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if kind.type is not ConfigType.LIST:
        words = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        raise Refused(ErrorCode.INVALID_CONFIG, words)
    return text_of(name, KAFKA_DEFAULTS) or ""
