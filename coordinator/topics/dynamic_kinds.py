"""Settings of the daemon that may be changed while it runs (KIP-226), with the values that each may have.

They are the ones that a broker of Kafka 4.3.1 lets change, except listeners and encryption (`is_refused`), and
those of single listeners (`listener_kinds`). Not all of them have an effect here: docs/apis.md says which.
Ranges and refusals are Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.config_values import (
    FLAG,
    InvalidConfig,
    ValueKind,
    any_text,
    real,
    whole,
    whole_number_where,
)
from coordinator.topics.listener_kinds import kind_for_listener, parts_of
from coordinator.topics.topic_config import TOPIC_KEYS
from protocol.messages.describe_configs import ConfigType

INT, LONG, SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT

THREAD_COUNTS: Final = frozenset(
    {
        *("background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir"),
        *("num.replica.fetchers", "remote.log.reader.threads", "remote.log.manager.copier.thread.pool.size"),
        *("remote.log.manager.expiration.thread.pool.size", "remote.log.manager.follower.thread.pool.size"),
    }
)
"""Numbers of threads, which Kafka lets at most halve or double in one change."""

THROTTLES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Replication throttles: kafka-reassign-partitions sets them, and they are shown only where they are set."""

MAX_CLEANER_THREADS: Final = 64
"""Most cleaner threads, a bound of Muster's own: their number may be doubled again and again."""

INTERVALS: Final = (
    "group.consumer.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
)
INTERNAL_BUFFERS: Final = (
    "group.coordinator.cached.buffer.max.bytes",
    "share.coordinator.cached.buffer.max.bytes",
)
MIN_INTERNAL_BUFFER_BYTES: Final = 524_288

_OTHER_LISTENERS: Final = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})


def is_refused(name: str) -> bool:
    """Whether Kafka lets the setting change and Muster does not: listeners, and encryption without a prefix."""
    return name in _OTHER_LISTENERS or name.startswith("ssl.")


def _parse_address_counts(name: str, text: str) -> Mapping[str, int]:
    """Return the counts by address from `address:count,...`, as in `max.connections.per.ip.overrides`."""
    counts: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, colon, count = entry.rpartition(":")
        if not colon:
            raise InvalidConfig(
                f"Error parsing configuration property '{name}': begin 0, end -1, length {len(entry)}"
            )
        counts[address.strip()] = whole(INT).parse(name, count)
    invalid = [address for address in counts if not address or any(letter.isspace() for letter in address)]
    if invalid:
        raise InvalidConfig(f"{name} contains invalid addresses : {','.join(invalid)}")
    return counts


def _parse_reporters(name: str, text: str) -> str:
    known = ("", BROKER_OPTIONS[name].default)
    if text.strip() not in known:
        raise InvalidConfig(
            "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of "
            f"Set({name}) failed with class class kafka.server.DynamicMetricsReporters "
            "for configuration Invalid dynamic configuration"
        )
    return text.strip()


def _parse_principal_builder(name: str, text: str) -> str:
    if text.strip() != BROKER_OPTIONS[name].default:
        raise InvalidConfig(
            f"Invalid value {text} for configuration {name}: Class {text} could not be found."
        )
    return text.strip()


def _topic_default_kinds() -> dict[str, ValueKind]:
    """Return the kinds of topic defaults, under the broker's names; topic settings mostly have the same ranges."""
    return {key.broker_name: key.kind for key in TOPIC_KEYS.values() if key.broker_name is not None}


def _sasl_kinds() -> dict[str, ValueKind]:
    kinds = {SHORT: whole(SHORT), LONG: whole(LONG), ConfigType.DOUBLE: real()}
    return {
        name: kinds.get(option.type) or any_text(option.type)
        for name, option in BROKER_OPTIONS.items()
        if option.is_dynamic and name.startswith("sasl.")
    }


CHANGEABLE: Final[Mapping[str, ValueKind]] = {
    **_topic_default_kinds(),
    **_sasl_kinds(),
    **dict.fromkeys(THREAD_COUNTS, whole(INT, 1)),
    **dict.fromkeys(THROTTLES, whole(LONG, 0)),
    **dict.fromkeys(INTERVALS, whole(INT, 0)),
    **dict.fromkeys(INTERNAL_BUFFERS, whole(INT, MIN_INTERNAL_BUFFER_BYTES)),
    "config.providers": any_text(ConfigType.LIST),
    "cordoned.log.dirs": any_text(ConfigType.LIST),
    "follower.fetch.last.tiered.offset.enable": FLAG,
    "log.cleaner.backoff.ms": whole(LONG, 0),
    "log.cleaner.dedupe.buffer.size": whole(LONG),
    "log.cleaner.io.buffer.load.factor": real(),
    "log.cleaner.io.buffer.size": whole(INT, 0),
    "log.cleaner.io.max.bytes.per.second": real(),
    "log.cleaner.threads": whole(INT, 0, MAX_CLEANER_THREADS),
    "log.flush.interval.ms": whole(LONG),
    "log.retention.ms": whole_number_where(
        LONG, lambda value: value != 0, "{} must be unlimited (-1) or, greater than or equal to 1"
    ),
    "log.roll.jitter.ms": whole_number_where(
        LONG, lambda value: value >= 0, "{} must be greater than or equal to 0"
    ),
    "log.roll.ms": whole_number_where(
        LONG, lambda value: value >= 1, "{} must be greater than or equal to 1"
    ),
    "max.connection.creation.rate": whole(INT, 0),
    "max.connections": whole(INT, 0),
    "max.connections.per.ip": whole(INT, 0),
    "max.connections.per.ip.overrides": ValueKind(ConfigType.STRING, _parse_address_counts),
    "metric.reporters": ValueKind(ConfigType.LIST, _parse_reporters),
    "principal.builder.class": ValueKind(ConfigType.CLASS, _parse_principal_builder),
    "producer.id.expiration.ms": whole(INT, 1),
    "remote.fetch.max.wait.ms": whole(INT, 1),
    "remote.list.offsets.request.timeout.ms": whole(LONG, 1),
    "remote.log.index.file.cache.total.size.bytes": whole(LONG, 1),
    "remote.log.manager.copy.max.bytes.per.second": whole(LONG, 1),
    "remote.log.manager.fetch.max.bytes.per.second": whole(LONG, 1),
    "transaction.partition.verification.enable": FLAG,
}
"""The settings that may be changed, by Kafka's names, with the kind of value of each."""

ONLY_PER_NODE: Final = frozenset(
    name
    for name in CHANGEABLE
    if name.startswith("sasl.") or name in ("cordoned.log.dirs", "principal.builder.class")
)
"""Settings that can be changed for one node, but not for all nodes together."""


def kind_of(name: str) -> ValueKind | None:
    """Return the kind of a setting that may be changed, of the daemon or of a listener; None: it may not."""
    return CHANGEABLE.get(name) or kind_for_listener(name)


_BY_TYPE: Final = {
    **{each: whole(each) for each in (SHORT, INT, LONG)},
    ConfigType.DOUBLE: real(),
    ConfigType.BOOLEAN: FLAG,
}
_CLIENT_AUTH: Final = frozenset({"required", "requested", "none"})


def is_taken_by_kafka(name: str, text: str, *, of_node: bool) -> bool:
    """Whether Kafka would take a setting that has no kind here; `of_node`: it is for one node.

    It takes any name that it does not know. For one node it also takes encryption without a listener's prefix, and
    everything with such a prefix, if it can read the value.
    """
    parts = parts_of(name)
    option = name if parts is None else _without_mechanism(parts[1])
    known = BROKER_OPTIONS.get(option)
    if known is None:
        return parts is None or of_node
    if parts is None and not (known.is_dynamic and option.startswith("ssl.")):
        return False
    return of_node and _is_readable(option, text)


def _without_mechanism(option: str) -> str:
    """Return the setting without the SASL mechanism that it is for, if it is for one."""
    rest = option.partition(".")[2]
    return rest if option not in BROKER_OPTIONS and rest in BROKER_OPTIONS else option


def _is_readable(option: str, text: str) -> bool:
    known = BROKER_OPTIONS[option]
    if option == "ssl.client.auth":
        return text.strip() in _CLIENT_AUTH
    if known.type is ConfigType.CLASS:
        return text.strip() == known.default  # No other class can be found.
    kind = CHANGEABLE.get(option) or _BY_TYPE.get(known.type)
    try:
        return kind is None or kind.parse(option, text) is not None
    except InvalidConfig:
        return False


def overrides_of(text: str) -> Mapping[str, int]:
    """Return the most connections by address, from a valid text of `max.connections.per.ip.overrides`."""
    return _parse_address_counts("max.connections.per.ip.overrides", text)
