"""The broker's own settings, as DescribeConfigs shows them: under Kafka's names, and all that Kafka shows.

Made from the data plane's settings unless the runtime knows all of them (`Broker.broker_configs`). What Muster
does not have is shown with Kafka's default. The types follow Kafka's definition of each name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

from coordinator.topics.broker_options import BROKER_OPTIONS, SECRET
from coordinator.topics.dynamic_settings import plain_text
from coordinator.topics.settings import TopicSettings
from protocol.messages.describe_configs import ConfigType

NOT_SETTINGS: Final = frozenset({"cluster_id", "dynamic", "max_partitions", "rack", "static"})

INTERNAL: Final = frozenset({"group.consumer.regex.refresh.interval.ms"})
"""Kafka reads it and shows it to nobody."""

NODE_ID_DEFAULTS: Final = {"broker.id": -1, "node.id": None}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One setting of the broker: its current value and its default, as text; None where there is no value."""

    name: str
    value: str | None
    default: str | None
    type: ConfigType
    general: BrokerConfig | None = None
    """What it is over, whose default it has, if it is the setting of a single listener."""

    @property
    def is_default(self) -> bool:
        return self.value == self.default and self.general is None


def broker_configs(settings: TopicSettings) -> tuple[BrokerConfig, ...]:
    """Return the data plane's settings and Kafka's other options; the node id stands under two names."""
    configs = [
        broker_config(field.name.replace("_", "."), getattr(settings, field.name), field.default)
        for field in fields(TopicSettings)
        if field.name not in NOT_SETTINGS
    ]
    return with_kafka_options(configs, settings.node_id)


def with_kafka_options(configs: Iterable[BrokerConfig], node_id: int) -> tuple[BrokerConfig, ...]:
    """Return `configs` and all other options that Kafka shows, by name; the node id stands under two names."""
    shown = {
        name: BrokerConfig(name, option.default, option.default, option.type)
        for name, option in BROKER_OPTIONS.items()
    }
    shown |= {config.name: config for config in configs if config.name not in INTERNAL}
    shown |= {name: broker_config(name, node_id, default) for name, default in NODE_ID_DEFAULTS.items()}
    return tuple(shown[name] for name in sorted(shown))


def listener_config(name: str, text: str, general: BrokerConfig) -> BrokerConfig:
    """Return the BrokerConfig of a setting of a single listener, `name`, over the `general` one."""
    option = BROKER_OPTIONS[general.name]
    shown = None if option.type is ConfigType.PASSWORD else text
    return BrokerConfig(name, shown, option.default, option.type, general)


def broker_config(name: str, value: object, default: object) -> BrokerConfig:
    """Return the BrokerConfig of one setting; its type follows from its values."""
    return BrokerConfig(
        name, _text(name, value), _text(name, default), _type(name, default if value is None else value)
    )


def concealed_config(name: str) -> BrokerConfig:
    """Return the BrokerConfig of a setting that Kafka's broker does not know: all it shows is that it is set."""
    return BrokerConfig(name, "", None, ConfigType.UNKNOWN)


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or (BROKER_OPTIONS[name].default if name in BROKER_OPTIONS else "")
    return plain_text(value.value if isinstance(value, Enum) else value)


def _type(name: str, value: object) -> ConfigType:
    """Return Kafka's type of the setting; for a setting of Muster's own, the type that fits the value."""
    if name in BROKER_OPTIONS:
        return BROKER_OPTIONS[name].type
    if name.endswith(SECRET):
        return ConfigType.PASSWORD
    return ConfigType.LONG if isinstance(value, int) else ConfigType.STRING
