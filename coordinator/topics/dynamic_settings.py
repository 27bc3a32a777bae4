"""Settings of the daemon that may be changed while it runs (KIP-226): which, and what they make of the others.

They are the defaults of topics, and how long producers are remembered: what Kafka lets change as well, and what
means something here. They are kept in a file of their own in the log directory, and stand above the properties
file; those of one node stand above those of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from coordinator.topics.config_values import InvalidConfig, ValueKind, whole
from coordinator.topics.settings import NOTHING_DYNAMIC, DynamicSettings, TopicSettings
from coordinator.topics.topic_config import KAFKA_DEFAULTS, TOPIC_KEYS
from protocol.messages.describe_configs import ConfigSource, ConfigType
from storage.files import Files, StorageError
from storage.sealed_json import read_sealed, write_sealed

FILE_NAME: Final = "dynamic-settings.json"
FORMAT: Final = 1

_FIELDS: Final = {field.name.replace("_", "."): field for field in fields(TopicSettings)}
_FIXED: Final = frozenset({"min.insync.replicas"})  # Kafka refuses it too, as it elects by it.

CHANGEABLE: Final[Mapping[str, ValueKind]] = {
    **{
        key.broker_name: key.kind
        for key in TOPIC_KEYS.values()
        if key.broker_name in _FIELDS and key.broker_name not in _FIXED
    },
    "producer.id.expiration.ms": whole(ConfigType.INT, 1),
}
"""What may be changed, by Kafka's names, with the values that each may have."""


def with_dynamic(static: TopicSettings, dynamic: DynamicSettings) -> TopicSettings:
    """The settings in force. Raises InvalidConfig: a name that cannot be changed, or a value that cannot be."""
    if dynamic == NOTHING_DYNAMIC:
        return static
    values: dict[str, Any] = {}
    for texts in (dynamic.of_all, dynamic.of_node):
        if fixed := sorted(texts.keys() - CHANGEABLE.keys()):
            raise InvalidConfig(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
        for name, text in texts.items():
            value = CHANGEABLE[name].parse(name, text)
            field = _FIELDS[name]
            values[field.name] = text.strip() if isinstance(field.default, str) else value
    return replace(static, **values, dynamic=dynamic, static=static)


def is_setting(name: str) -> bool:
    """Whether the daemon has a setting of this name of Kafka's."""
    return name in _FIELDS


def values_of(name: str, settings: TopicSettings) -> Iterator[tuple[str, ConfigSource]]:
    """The values that the setting `name` was given, the one in force first; the last is Kafka's default."""
    if name in settings.dynamic.of_node:
        yield settings.dynamic.of_node[name], ConfigSource.DYNAMIC_BROKER_CONFIG
    if name in settings.dynamic.of_all:
        yield settings.dynamic.of_all[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    attribute = name.replace(".", "_")
    given = getattr(settings.static or settings, attribute)
    default = getattr(KAFKA_DEFAULTS, attribute)
    if given != default:
        yield str(given), ConfigSource.STATIC_BROKER_CONFIG
    yield str(default), ConfigSource.DEFAULT_CONFIG


def read_dynamic(files: Files, directory: Path) -> DynamicSettings:
    """What was changed so far. Raises StorageError if the file cannot be read or is none of ours."""
    path = directory / FILE_NAME
    document = read_sealed(files, path, "file of dynamic settings")
    if document is None:
        return NOTHING_DYNAMIC
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}, known is {FORMAT}")
        return DynamicSettings(_texts(document["node"]), _texts(document["all"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError("read", path, f"not a file of dynamic settings: {error!r}") from error


def _texts(entries: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in entries.items()}


def write_dynamic(files: Files, directory: Path, dynamic: DynamicSettings) -> None:
    """Put `dynamic` in place of what was there; on the disk when this returns. Raises StorageError."""
    document = {"format": FORMAT, "node": dict(dynamic.of_node), "all": dict(dynamic.of_all)}
    write_sealed(files, directory / FILE_NAME, document)
