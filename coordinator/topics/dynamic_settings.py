"""Settings of the daemon that were changed while it ran (KIP-226): the resulting values, and the file they are in.

`dynamic_kinds` lists the settings that may be changed. Changed values are kept in a file of their own in the log
directory, and override the properties file; values for one node override those for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import ONLY_PER_NODE, is_taken_by_kafka, kind_of
from coordinator.topics.dynamic_rules import NO_CONNECTIONS, check_step
from coordinator.topics.listener_kinds import STORES, is_only_per_node
from coordinator.topics.settings import NOTHING_DYNAMIC, DynamicSettings, TopicSettings
from coordinator.topics.topic_config import KAFKA_DEFAULTS
from protocol.messages.describe_configs import ConfigSource, ConfigType
from storage.files import Files
from storage.sealed_json import encode_sealed, read_sealed, require_private

FILE_NAME: Final = "dynamic-settings.json"
FORMAT: Final = 1

_FIELDS: Final = {field.name.replace("_", "."): field for field in fields(TopicSettings)}

_UNLIMITED: Final = -1  # In `log.retention.ms` Kafka takes any negative number for no limit.


class NotTakenHere(InvalidConfig):
    """Raised for settings that Kafka would take, though to no effect."""


def with_dynamic(static: TopicSettings, dynamic: DynamicSettings) -> TopicSettings:
    """Return `static` overridden by `dynamic`.

    Raises InvalidConfig for a name or value that cannot be set, NotTakenHere where it can in Kafka.
    """
    if dynamic == NOTHING_DYNAMIC:
        return static
    _check_names(dynamic.of_all, of_node=False)
    _check_names(dynamic.of_node, of_node=True)
    values: dict[str, Any] = {}
    fruitless: set[str] = set()
    for texts in (dynamic.of_all, dynamic.of_node):
        for name, text in texts.items():
            kind = kind_of(name)
            if kind is None:
                fruitless.add(name)  # Refused below: what Kafka refuses comes first.
                continue
            value = kind.parse(name, text)
            field = _FIELDS.get(name)
            if name == "log.retention.ms":
                value = max(value, _UNLIMITED)
            if field is not None:
                values[field.name] = text.strip() if isinstance(field.default, str) else value
    if of_one := sorted(name for name in dynamic.of_all if name in ONLY_PER_NODE or is_only_per_node(name)):
        raise InvalidConfig(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(of_one)}]"
        )
    if fruitless:
        raise NotTakenHere(_unchangeable(sorted(fruitless)))
    return replace(static, **values, dynamic=dynamic, static=static)


def _check_names(texts: Mapping[str, str], *, of_node: bool) -> None:
    """Raise InvalidConfig if Kafka, too, does not let one of the settings change, or only for a listener."""
    fixed = sorted(name for name in texts if kind_of(name) is None)
    never = [name for name in fixed if name not in STORES]
    if not all(is_taken_by_kafka(name, texts[name], of_node=of_node) for name in never):
        raise InvalidConfig(_unchangeable(never))
    if of_listeners := [name for name in fixed if name in STORES]:
        raise InvalidConfig(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(of_listeners)}]"
        )


def _unchangeable(names: Iterable[str]) -> str:
    return f"Cannot update these configs dynamically: [{', '.join(names)}]"


def check_change(before: TopicSettings, after: TopicSettings, log_directory: str) -> None:
    """Raise InvalidConfig if the settings may not change from `before` to `after`."""
    changed = {
        name: text
        for name in {*after.dynamic.of_node, *after.dynamic.of_all}
        if (text := after.dynamic_text(name)) is not None and text != before.dynamic_text(name)
    }
    check_step(changed, lambda name: text_of(name, before), lambda name: text_of(name, after), log_directory)


def text_of(name: str, settings: TopicSettings) -> str | None:
    """Return the text of the current value of the setting `name`; None if it has no value."""
    return next((text for text, _ in values_of(name, settings)), None)


def values_of(name: str, settings: TopicSettings) -> Iterator[tuple[str, ConfigSource]]:
    """Yield all values of the setting `name` with their sources: the current one first, Kafka's default last."""
    if name in settings.dynamic.of_node:
        yield settings.dynamic.of_node[name], ConfigSource.DYNAMIC_BROKER_CONFIG
    if name in settings.dynamic.of_all:
        yield settings.dynamic.of_all[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if name in _FIELDS:
        attribute = name.replace(".", "_")
        given, default = getattr(settings.static or settings, attribute), getattr(KAFKA_DEFAULTS, attribute)
        if given != default:
            yield plain_text(given), ConfigSource.STATIC_BROKER_CONFIG
        yield plain_text(default), ConfigSource.DEFAULT_CONFIG
    elif name in BROKER_OPTIONS and (text := BROKER_OPTIONS[name].default) is not None:
        yield text, ConfigSource.DEFAULT_CONFIG


def check_connections(settings: TopicSettings) -> None:
    """Raise InvalidConfig if no client could connect, not even to change the settings again."""
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        raise InvalidConfig(NO_CONNECTIONS)


def lags_in_conflict(settings: TopicSettings) -> str | None:
    """Return, as text, the daemon's two compaction lags and their origins, if they conflict; None if not.

    A change at run time that leads to a conflict is refused; only a start with other settings leads to one.
    """
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    if settings.log_cleaner_min_compaction_lag_ms <= settings.log_cleaner_max_compaction_lag_ms:
        return None
    return f"{_with_origin(least, settings)} is above {_with_origin(most, settings)}"


def _with_origin(name: str, settings: TopicSettings) -> str:
    text, source = next(values_of(name, settings))
    is_dynamic = source in (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    return f"{name}={text} ({f'set at run time, in {FILE_NAME}' if is_dynamic else 'given at the start'})"


def plain_text(value: object) -> str:
    """Return a value as Kafka shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).replace("e+", "E") if isinstance(value, float) else str(value)


def read_dynamic(files: Files, directory: Path) -> DynamicSettings:
    """Read the settings changed so far.

    Raises StorageError if it cannot be read, has another format, or holds secrets and others may use it (F13).
    """
    path = directory / FILE_NAME
    dynamic = read_sealed(files, path, "file of dynamic settings", _parse_dynamic, FORMAT)
    if dynamic is None:
        return NOTHING_DYNAMIC
    if _has_secrets(dynamic):
        why = "it holds secrets, and others may use it"
        require_private(files, path, "`chmod 600` it, and change them", why)
    return dynamic


def _parse_dynamic(document: dict[str, Any]) -> DynamicSettings:
    return DynamicSettings(_texts(document["node"]), _texts(document["all"]))


def _texts(entries: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in entries.items()}


def write_dynamic(files: Files, directory: Path, dynamic: DynamicSettings) -> None:
    """Replace the stored settings by `dynamic`; durable when this returns. Raises StorageError."""
    document = {"format": FORMAT, "node": dict(dynamic.of_node), "all": dict(dynamic.of_all)}
    files.write_atomically(directory / FILE_NAME, encode_sealed(document), is_secret=_has_secrets(dynamic))


def _has_secrets(dynamic: DynamicSettings) -> bool:
    return any(_is_secret(name) for name in (*dynamic.of_node, *dynamic.of_all))


def _is_secret(name: str) -> bool:
    kind = kind_of(name)
    return kind is not None and kind.type is ConfigType.PASSWORD
