"""What each part of the daemon goes by, taken from the settings of the whole; parts know no `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings, GroupOverrides
from coordinator.groups.group_settings import GroupSettings
from coordinator.settings.group_kinds import assignor_names
from coordinator.settings.model import Settings, option_name
from coordinator.settings.prefixed import Place
from coordinator.topics.broker_configs import (
    BrokerConfig,
    broker_config,
    concealed_config,
    listener_config,
    with_kafka_options,
)
from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.settings import TopicSettings
from coordinator.transactions.transaction_settings import TransactionSettings

OF_MECHANISMS: Final = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.server.callback.handler.class",
    }
)
"""The settings that Kafka's DescribeConfigs knows with a mechanism's prefix behind the listener's."""

CONVERTED_SETTINGS = frozenset(
    {
        *("cordoned_log_dirs", "log_cleanup_policy", "log_flush_interval_ms", "log_retention_ms"),
        *("log_roll_jitter_ms", "log_roll_ms"),
    }
)
"""Settings that `topic_settings` converts, rather than copies, for the data plane."""
HIDDEN_SETTINGS = frozenset({"producer_id_expiration_check_interval_ms"})
"""Settings that Kafka accepts, but that DescribeConfigs does not show."""
UNKNOWN_TO_KAFKA = frozenset({"super_users", "allow_everyone_if_no_acl_found"})
"""Settings of Kafka's authorizer, which its broker does not know: shown without their values, if given (F12)."""


def group_settings(settings: Settings) -> GroupSettings:
    """Return the settings of the group coordinator."""
    return GroupSettings(**{name: getattr(settings, name) for name in GroupSettings.__dataclass_fields__})


def consumer_group_settings(settings: Settings) -> ConsumerGroupSettings:
    """Return the settings of consumer groups, which the core knows without `group.consumer`."""
    return ConsumerGroupSettings(
        session_timeout_ms=settings.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        max_size=settings.group_consumer_max_size,
        regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
        assignors=assignor_names(settings.group_consumer_assignors),
        migration_policy=MigrationPolicy(settings.group_consumer_migration_policy),
        classic_max_size=settings.group_max_size,
    )


def group_overrides(numbers: Mapping[str, int]) -> GroupOverrides:
    """Return what is set for one consumer group, by the names that tools give it."""
    names = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    return GroupOverrides(*(numbers.get(f"consumer.{name}") for name in names))


def transaction_settings(settings: Settings) -> TransactionSettings:
    """Return the settings of the transaction coordinator; its largest record is derived from two size limits."""
    own = TransactionSettings.__dataclass_fields__.keys() & Settings.model_fields.keys()
    most_bytes = min(settings.message_max_bytes, settings.transaction_state_log_segment_bytes)
    return TransactionSettings(**{name: getattr(settings, name) for name in own}, max_record_bytes=most_bytes)


def topic_settings(settings: Settings, cluster_id: str) -> TopicSettings:
    """Return the settings of the data plane; those that Muster does not offer keep Kafka's defaults."""
    own = TopicSettings.__dataclass_fields__.keys() & Settings.model_fields.keys()
    return TopicSettings(
        **{name: getattr(settings, name) for name in own - CONVERTED_SETTINGS},
        cluster_id=cluster_id,
        rack=settings.broker_rack,
        cordoned_log_dirs=",".join(settings.cordoned_log_dirs),
        log_cleanup_policy=",".join(settings.log_cleanup_policy),
        log_flush_interval_ms=settings.flush_interval_ms,
        log_retention_ms=settings.retention_ms,
        log_roll_ms=settings.roll_ms,
        log_roll_jitter_ms=settings.roll_jitter_ms,
    )


def shown_configs(settings: Settings) -> tuple[BrokerConfig, ...]:
    """Return every setting as DescribeConfigs of the broker shows it."""
    own = [
        broker_config(option_name(name), getattr(settings, name), field.default)
        for name, field in Settings.model_fields.items()
        if name not in HIDDEN_SETTINGS | UNKNOWN_TO_KAFKA
    ]
    own += [concealed_config(option_name(name)) for name in UNKNOWN_TO_KAFKA & settings.model_fields_set]
    shown = with_kafka_options(own, settings.node_id)
    general = {config.name: config for config in shown}
    own += [
        _of_listener(place, text, general[place.option])
        for place, text in settings.shown_of_listeners()
        if place.option in BROKER_OPTIONS
    ]
    return with_kafka_options(own, settings.node_id)


def _of_listener(place: Place, text: str, general: BrokerConfig) -> BrokerConfig:
    if place.mechanism and place.option not in OF_MECHANISMS:
        return concealed_config(place.name)
    return listener_config(place.name, text, general)
