"""Topic settings: every name that Kafka 4.3 knows, with its range and its default.

`TOPIC_KEYS` is the table; `TopicConfig` has one topic's checked overrides and, parsed, the values that the data
plane needs. A default is a function of the daemon's own settings, as in Kafka.

All of Kafka's names are accepted in their ranges, so that applications that create their own topics
work. Not all of them have an effect here: replica throttles, tiered storage, `preallocate`,
`file.delete.delay.ms` and `min.insync.replicas` have nothing to act on, since there is one node, and a deleted
file lasts until its last reader is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from coordinator.topics.config_values import (
    FLAG,
    FRACTION,
    INT64_MAX,
    THROTTLED_REPLICAS,
    InvalidConfig,
    ValueKind,
    one_of,
    some_of,
    whole,
)
from coordinator.topics.settings import TopicSettings
from protocol.messages.describe_configs import ConfigSource, ConfigType
from protocol.records.batch import Codec
from storage.log.config import LogConfig

INT, LONG = ConfigType.INT, ConfigType.LONG
KAFKA_DEFAULTS: Final = TopicSettings()
FLAGS: Final = ("true", "false")
MIN_SEGMENT_BYTES: Final = 1 << 20  # Kafka's own floor since 4.0.


@dataclass(frozen=True, slots=True)
class TopicKey:
    """One topic setting. `broker_name` is the daemon-wide setting that gives its default."""

    name: str
    kind: ValueKind
    default: Callable[[TopicSettings], object]
    broker_name: str | None = None


def _fixed_default(value: object) -> Callable[[TopicSettings], object]:
    return lambda _settings: value


def _shown_default(broker_name: str, value: object) -> Callable[[TopicSettings], object]:
    """Return the default of a setting that has no effect here: `value`, or what was set at run time."""

    def default(settings: TopicSettings) -> object:
        text = settings.dynamic_text(broker_name)
        if text is None:
            return value
        return text.strip().lower() if value in FLAGS else text.strip()

    return default


def _flush_ms(settings: TopicSettings) -> object:
    """Return the default flush interval; the daemon's may be negative, which a topic's may not: no interval."""
    given = settings.log_flush_interval_ms
    return INT64_MAX if given < 0 else given


def _shown_key(name: str, kind: ValueKind, value: object, broker_name: str | None = None) -> TopicKey:
    broker_name = broker_name or name
    return TopicKey(name, kind, _shown_default(broker_name, value), broker_name)


_COMPRESSIONS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_KEYS: Final[Mapping[str, TopicKey]] = {
    key.name: key
    for key in (
        TopicKey(
            "cleanup.policy",
            some_of("compact", "delete"),
            lambda s: s.log_cleanup_policy,
            "log.cleanup.policy",
        ),
        TopicKey(
            "compression.gzip.level",
            whole(INT, 1, 9, also=-1),
            lambda s: s.compression_gzip_level,
            "compression.gzip.level",
        ),
        TopicKey(
            "compression.lz4.level",
            whole(INT, 1, 17),
            lambda s: s.compression_lz4_level,
            "compression.lz4.level",
        ),
        TopicKey("compression.type", _COMPRESSIONS, lambda s: s.compression_type, "compression.type"),
        TopicKey(
            "compression.zstd.level",
            whole(INT, -131072, 22),
            lambda s: s.compression_zstd_level,
            "compression.zstd.level",
        ),
        TopicKey(
            "delete.retention.ms",
            whole(LONG, 0),
            lambda s: s.log_cleaner_delete_retention_ms,
            "log.cleaner.delete.retention.ms",
        ),
        TopicKey(
            "file.delete.delay.ms",
            whole(LONG, 0),
            lambda s: s.log_segment_delete_delay_ms,
            "log.segment.delete.delay.ms",
        ),
        TopicKey(
            "flush.messages",
            whole(LONG, 1),
            lambda s: s.log_flush_interval_messages,
            "log.flush.interval.messages",
        ),
        TopicKey("flush.ms", whole(LONG, 0), _flush_ms, "log.flush.interval.ms"),
        TopicKey("follower.replication.throttled.replicas", THROTTLED_REPLICAS, _fixed_default("")),
        TopicKey(
            "index.interval.bytes",
            whole(INT, 0),
            lambda s: s.log_index_interval_bytes,
            "log.index.interval.bytes",
        ),
        TopicKey("leader.replication.throttled.replicas", THROTTLED_REPLICAS, _fixed_default("")),
        _shown_key("local.retention.bytes", whole(LONG, -2), -2, "log.local.retention.bytes"),
        _shown_key("local.retention.ms", whole(LONG, -2), -2, "log.local.retention.ms"),
        TopicKey(
            "max.compaction.lag.ms",
            whole(LONG, 1),
            lambda s: s.log_cleaner_max_compaction_lag_ms,
            "log.cleaner.max.compaction.lag.ms",
        ),
        TopicKey("max.message.bytes", whole(INT, 0), lambda s: s.message_max_bytes, "message.max.bytes"),
        TopicKey(
            "message.timestamp.after.max.ms",
            whole(LONG, 0),
            lambda s: s.log_message_timestamp_after_max_ms,
            "log.message.timestamp.after.max.ms",
        ),
        TopicKey(
            "message.timestamp.before.max.ms",
            whole(LONG, 0),
            lambda s: s.log_message_timestamp_before_max_ms,
            "log.message.timestamp.before.max.ms",
        ),
        TopicKey(
            "message.timestamp.type",
            one_of("CreateTime", "LogAppendTime"),
            lambda s: s.log_message_timestamp_type,
            "log.message.timestamp.type",
        ),
        TopicKey(
            "min.cleanable.dirty.ratio",
            FRACTION,
            lambda s: s.log_cleaner_min_cleanable_ratio,
            "log.cleaner.min.cleanable.ratio",
        ),
        TopicKey(
            "min.compaction.lag.ms",
            whole(LONG, 0),
            lambda s: s.log_cleaner_min_compaction_lag_ms,
            "log.cleaner.min.compaction.lag.ms",
        ),
        TopicKey(
            "min.insync.replicas", whole(INT, 1), lambda s: s.min_insync_replicas, "min.insync.replicas"
        ),
        _shown_key("preallocate", FLAG, "false", "log.preallocate"),
        TopicKey("remote.log.copy.disable", FLAG, _fixed_default("false")),
        TopicKey("remote.log.delete.on.disable", FLAG, _fixed_default("false")),
        TopicKey("remote.storage.enable", FLAG, _fixed_default("false")),
        TopicKey("retention.bytes", whole(LONG), lambda s: s.log_retention_bytes, "log.retention.bytes"),
        TopicKey("retention.ms", whole(LONG, -1), lambda s: s.log_retention_ms, "log.retention.ms"),
        TopicKey(
            "segment.bytes", whole(INT, MIN_SEGMENT_BYTES), lambda s: s.log_segment_bytes, "log.segment.bytes"
        ),
        TopicKey(
            "segment.index.bytes",
            whole(INT, 4),
            lambda s: s.log_index_size_max_bytes,
            "log.index.size.max.bytes",
        ),
        TopicKey("segment.jitter.ms", whole(LONG, 0), lambda s: s.log_roll_jitter_ms, "log.roll.jitter.ms"),
        TopicKey("segment.ms", whole(LONG, 1), lambda s: s.log_roll_ms, "log.roll.ms"),
        _shown_key("unclean.leader.election.enable", FLAG, "false"),
    )
}


class Compression(NamedTuple):
    """The codec and level for stored batches; levels are numbered as in Kafka, None for a codec without levels."""

    codec: Codec
    level: int | None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic's settings: its own `overrides`, as their texts, over the defaults in the daemon's `settings`."""

    overrides: Mapping[str, str]
    settings: TopicSettings
    max_message_bytes: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_log_append_time: bool
    compression: Compression | None
    is_compacted: bool
    is_deleting: bool
    log: LogConfig

    def text(self, name: str) -> str:
        """Return the current value of the setting `name`, as DescribeConfigs shows it."""
        given = self.overrides.get(name)
        return default_text(name, self.settings) if given is None else given

    def source(self, name: str) -> ConfigSource:
        """Return the source of the current value of the setting `name`."""
        if name in self.overrides:
            return ConfigSource.TOPIC_CONFIG
        return default_source(name, self.settings)


def default_source(name: str, settings: TopicSettings) -> ConfigSource:
    """Return the source of the default of `name`: the daemon's settings, or Kafka's default."""
    broker_name = TOPIC_KEYS[name].broker_name
    if broker_name in settings.dynamic.of_node:
        return ConfigSource.DYNAMIC_BROKER_CONFIG
    if broker_name in settings.dynamic.of_all:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    given = TOPIC_KEYS[name].default(settings) != TOPIC_KEYS[name].default(KAFKA_DEFAULTS)
    return ConfigSource.STATIC_BROKER_CONFIG if given else ConfigSource.DEFAULT_CONFIG


def default_text(name: str, settings: TopicSettings) -> str:
    """Return the default of the topic setting `name`, as text."""
    return str(TOPIC_KEYS[name].default(settings))


def topic_config(overrides: Mapping[str, str], settings: TopicSettings) -> TopicConfig:
    """Return a topic's settings from its `overrides`. Raises InvalidConfig: unknown name, bad value, a conflict.

    Without overrides the topic is accepted even if the daemon's own settings conflict, as in Kafka.
    """
    config = accepted_config(overrides, settings)
    if overrides and (conflict := lag_conflict(config)):
        raise InvalidConfig(conflict)
    return config


def lag_conflict(config: TopicConfig) -> str | None:
    """Return, in Kafka's words, why the two compaction lags conflict; None if they do not."""
    least_ms, most_ms = config.log.min_compaction_lag_ms, config.log.max_compaction_lag_ms
    if least_ms <= most_ms:
        return None
    return f"conflict topic config setting min.compaction.lag.ms ({least_ms}) > max.compaction.lag.ms ({most_ms})"


def accepted_config(overrides: Mapping[str, str], settings: TopicSettings) -> TopicConfig:
    """Return a topic's settings from its `overrides`, even if these conflict with the daemon's current settings.

    Raises InvalidConfig: unknown name or bad value.
    """
    values = _values(overrides, settings)
    if values["remote.storage.enable"]:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return TopicConfig(
        overrides=dict(overrides),
        settings=settings,
        max_message_bytes=values["max.message.bytes"],
        timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        is_log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        compression=_compression(values),
        is_compacted="compact" in values["cleanup.policy"],
        is_deleting="delete" in values["cleanup.policy"],
        log=_log_config(values),
    )


def _compression(values: Mapping[str, Any]) -> Compression | None:
    name = values["compression.type"]
    if name == "producer":
        return None
    if name == "uncompressed":
        return Compression(Codec.NONE, None)
    return Compression(Codec[name.upper()], values.get(f"compression.{name}.level"))


def _values(overrides: Mapping[str, str], settings: TopicSettings) -> dict[str, Any]:
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
    return {
        name: key.kind.parse(name, overrides[name] if name in overrides else default_text(name, settings))
        for name, key in TOPIC_KEYS.items()
    }


def _log_config(values: Mapping[str, Any]) -> LogConfig:
    deletes = "delete" in values["cleanup.policy"]  # Otherwise no segment is deleted by age or size.
    compacts = "compact" in values["cleanup.policy"]
    # The active segment is not cleaned, so it is closed by the time when its records have to be.
    most_ms = values["max.compaction.lag.ms"] if compacts else INT64_MAX
    return LogConfig(
        segment_bytes=values["segment.bytes"],
        segment_ms=min(values["segment.ms"], most_ms),
        segment_jitter_ms=values["segment.jitter.ms"],
        index_max_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        retention_ms=values["retention.ms"] if deletes else -1,
        retention_bytes=max(values["retention.bytes"], -1) if deletes else -1,
        max_batch_bytes=values["max.message.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        is_compacted=compacts,
        min_cleanable_ratio=values["min.cleanable.dirty.ratio"],
        delete_retention_ms=values["delete.retention.ms"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
    )
