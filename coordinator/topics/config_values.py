"""The kinds of value a topic setting may have, and how a value is refused: in Kafka's words.

The texts are those that tools print for a Kafka broker, so that scripts which look for them keep working.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from protocol.messages.describe_configs import ConfigType

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

LIMITS: Final = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: INT32_MAX, ConfigType.LONG: INT64_MAX}

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")  # 20 digits hold every 64-bit value.
_REPLICA_LIST: Final = re.compile(r"[0-9]+:[0-9]+")


class InvalidConfig(ValueError):
    """Raised for a setting that is refused (INVALID_CONFIG); the text is for the client."""


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How a setting's text is read: `parse` takes name and text, returns the value or raises InvalidConfig."""

    type: ConfigType
    parse: Callable[[str, str], Any]


def _refuse(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


def _whole_number(type_: ConfigType, name: str, text: str) -> int:
    text = text.strip()
    limit = LIMITS[type_]
    if not _WHOLE.fullmatch(text) or not -limit - 1 <= int(text) <= limit:
        raise _refuse(name, text, f"Not a number of type {type_.name}")
    return int(text)


def whole(
    type_: ConfigType, low: int | None = None, high: int | None = None, also: int | None = None
) -> ValueKind:
    """Return the kind of whole numbers of `type_` from `low` to `high`, or exactly `also`."""

    def parse(name: str, text: str) -> int:
        value = _whole_number(type_, name, text)
        if value == also:
            return value
        is_low, is_high = low is not None and value < low, high is not None and value > high
        if also is not None and (is_low or is_high):
            raise _refuse(name, value, f"Value must be between {low} and {high} or equal to {also}")
        if is_low:
            raise _refuse(name, value, f"Value must be at least {low}")
        if is_high:
            raise _refuse(name, value, f"Value must be no more than {high}")
        return value

    return ValueKind(type_, parse)


def whole_number_where(type_: ConfigType, holds: Callable[[int], bool], words: str) -> ValueKind:
    """Return the kind of whole numbers for which `holds` is true; a refusal has `words` and the setting's name."""

    def parse(name: str, text: str) -> int:
        value = _whole_number(type_, name, text)
        if not holds(value):
            raise InvalidConfig(f"requirement failed: {words.format(name)}")
        return value

    return ValueKind(type_, parse)


def real() -> ValueKind:
    """Return the kind of all numbers."""

    def parse(name: str, text: str) -> float:
        try:
            return float(text.strip().replace("_", "?"))  # Python alone takes 1_000 for a number.
        except ValueError:
            raise _refuse(name, text, "Not a number of type DOUBLE") from None

    return ValueKind(ConfigType.DOUBLE, parse)


def any_text(type_: ConfigType) -> ValueKind:
    """Return the kind of all texts, shown as of `type_`."""
    return ValueKind(type_, lambda _name, text: text.strip())


def _parse_fraction(name: str, text: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        raise _refuse(name, text, "Not a number of type DOUBLE") from None
    if not value >= 0:  # Also refuses NaN.
        raise _refuse(name, value, "Value must be at least 0")
    if value > 1:
        raise _refuse(name, value, "Value must be no more than 1")
    return value


def _parse_flag(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _refuse(name, text, "Expected value to be either true or false")
    return word == "true"


def one_of(*words: str) -> ValueKind:
    """Return the kind of texts that are exactly one of `words`."""

    def parse(name: str, text: str) -> str:
        word = text.strip()
        if word not in words:
            raise _refuse(name, word, f"String must be one of: {', '.join(words)}")
        return word

    return ValueKind(ConfigType.STRING, parse)


def some_of(*words: str) -> ValueKind:
    """Return the kind of comma-separated lists of `words`, which may be empty."""

    def parse(name: str, text: str) -> frozenset[str]:
        chosen = [word.strip() for word in text.split(",") if word.strip()]
        for word in chosen:
            if word not in words:
                raise _refuse(name, word, f"String must be one of: {', '.join(words)}")
        return frozenset(chosen)

    return ValueKind(ConfigType.LIST, parse)


def _parse_throttled_replicas(name: str, text: str) -> str:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if entries != ["*"] and not all(_REPLICA_LIST.fullmatch(entry) for entry in entries):
        raise _refuse(
            name,
            f"[{', '.join(entries)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
    return text


FRACTION: Final = ValueKind(ConfigType.DOUBLE, _parse_fraction)
FLAG: Final = ValueKind(ConfigType.BOOLEAN, _parse_flag)
THROTTLED_REPLICAS: Final = ValueKind(ConfigType.LIST, _parse_throttled_replicas)
