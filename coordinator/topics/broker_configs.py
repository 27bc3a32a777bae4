"""The broker's own settings, as DescribeConfigs shows them: under Kafka's names, read-only.

Made from the data plane's settings unless the runtime knows all of them (`Broker.broker_configs`). The
types follow Kafka's definition of each name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

from coordinator.topics.settings import TopicSettings
from protocol.messages.describe_configs import ConfigType

NOT_SETTINGS: Final = frozenset(
    {"cluster_id", "dynamic", "log_flush_policy", "max_partitions", "rack", "static"}
)
LONGS: Final = frozenset(
    {
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.delete.delay.ms",
    }
)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One setting: the value in force and the one without any settings file; None for none."""

    name: str
    value: str | None
    default: str | None
    type: ConfigType

    @property
    def is_default(self) -> bool:
        return self.value == self.default


def broker_configs(settings: TopicSettings) -> tuple[BrokerConfig, ...]:
    """The data plane's settings, and the two names under which Kafka knows its node."""
    configs = [
        broker_config(field.name.replace("_", "."), getattr(settings, field.name), field.default)
        for field in fields(TopicSettings)
        if field.name not in NOT_SETTINGS
    ]
    configs.append(broker_config("broker.id", settings.node_id, -1))
    return tuple(sorted(configs, key=lambda config: config.name))


def broker_config(name: str, value: object, default: object) -> BrokerConfig:
    """One setting, its type read off its values."""
    return BrokerConfig(name, _text(value), _text(default), _type(name, default if value is None else value))


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value.value if isinstance(value, Enum) else value)


def _type(name: str, value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, int):
        return ConfigType.LONG if name in LONGS else ConfigType.INT
    if isinstance(value, float):
        return ConfigType.DOUBLE
    is_list = isinstance(value, tuple) or name == "log.cleanup.policy"
    return ConfigType.LIST if is_list else ConfigType.STRING
