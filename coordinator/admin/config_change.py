"""A client's change of one resource's settings, as a function of their texts. Checks no value.

Settings are texts by name; a list is a text with commas. Knows neither topics nor where settings are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterableConfig
from protocol.messages.incremental_alter_configs import ConfigOperation
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as ConfigOperationAsked

ListDefault = Callable[[str, ConfigOperation], str]
"""Returns the default of a list setting, by name; raises Refused if the setting is not a list."""

Change = Callable[[Mapping[str, str], ListDefault], dict[str, str]]
"""Returns the settings that a resource gets, from those that it was given before. Raises Refused."""

MAX_VALUE_BYTES: Final = 32_767
"""Most bytes of one value: a list may be appended to repeatedly, and has to fit a string of the protocol."""

OPERATIONS: Final = frozenset(ConfigOperation)


def replacement(configs: Sequence[AlterableConfig]) -> Change:
    """Return the change that replaces all settings by `configs`. Raises Refused: INVALID_REQUEST."""
    values = {config.name: config.value for config in configs}
    _check_names(
        [config.name for config in configs], [name for name, value in values.items() if value is None]
    )
    return lambda _current, _list_default: _checked_sizes(
        {name: value or "" for name, value in values.items()}
    )


def incremental_change(configs: Sequence[ConfigOperationAsked]) -> Change:
    """Return the change that applies `configs` and keeps all other settings. Raises Refused: INVALID_REQUEST.

    Operations are looked at by the change itself: as in Kafka, that is where rights have been asked for.
    """
    nulls = [
        config.name
        for config in configs
        if config.value is None and config.config_operation != ConfigOperation.DELETE
    ]
    _check_names([config.name for config in configs], nulls)

    def change(current: Mapping[str, str], list_default: ListDefault) -> dict[str, str]:
        _check_operations(configs)
        changed = dict(current)
        for config in configs:
            operation = ConfigOperation(config.config_operation)
            if operation is ConfigOperation.DELETE:
                changed.pop(config.name, None)
            elif operation is ConfigOperation.SET:
                changed[config.name] = config.value or ""
            else:
                before = changed.get(config.name)
                default = list_default(config.name, operation)
                parts = _list_items(default if before is None else before)
                changed[config.name] = ",".join(
                    _changed_list(parts, operation, _list_items(config.value or ""))
                )
        return _checked_sizes(changed)

    return change


def _check_operations(configs: Sequence[ConfigOperationAsked]) -> None:
    for config in configs:
        if config.config_operation not in OPERATIONS:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}")


def _checked_sizes(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if len(value.encode()) > MAX_VALUE_BYTES:
            words = f"The value of {name} is longer than {MAX_VALUE_BYTES} bytes."
            raise Refused(ErrorCode.INVALID_REQUEST, words)
    return values


def _check_names(names: Sequence[str], nulls: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _list_items(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _changed_list(parts: list[str], operation: ConfigOperation, values: Sequence[str]) -> list[str]:
    if operation is ConfigOperation.APPEND:
        return parts + [value for value in dict.fromkeys(values) if value not in parts]
    return [part for part in parts if part not in values]
