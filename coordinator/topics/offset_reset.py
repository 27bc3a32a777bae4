"""`share.auto.offset.reset`: earliest, latest, or by a duration, as Java writes it (`by_duration:PT1H30M`)."""

from __future__ import annotations

import re
from typing import Final

from coordinator.topics.config_values import INT64_MAX, InvalidConfig, ValueKind
from protocol.messages.describe_configs import ConfigType

BY_DURATION: Final = "by_duration:"

_NUMBER: Final = r"[-+]?[0-9]{1,19}"  # 19 digits hold every 64-bit value.
_DURATION: Final = re.compile(
    rf"(?P<sign>[-+]?)P(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=.)(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?"
    rf"(?:(?P<seconds>{_NUMBER})(?:[.,](?P<fraction>[0-9]{{0,9}}))?S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def _parse(name: str, text: str) -> str:
    text = text.strip()
    if text in ("earliest", "latest") or _is_duration(text.removeprefix(BY_DURATION), text):
        return text
    raise InvalidConfig(
        f"Invalid value {text} for configuration {name}: Invalid value `{text}` for configuration {name}. "
        f"The value must be either 'earliest', 'latest' or of the format '{BY_DURATION}<PnDTnHnMn.nS>'."
    )


def _is_duration(duration: str, text: str) -> bool:
    """Whether `duration`, what follows the prefix in `text`, is one that is not negative."""
    found = _DURATION.fullmatch(duration)
    if found is None or duration == text:
        return False
    numbers = {unit: found[unit] for unit in _SECONDS if found[unit] is not None}
    nanoseconds = sum(int(number) * _SECONDS[unit] for unit, number in numbers.items()) * 10**9
    if fraction := found["fraction"]:
        part = int(fraction.ljust(9, "0"))
        nanoseconds += -part if found["seconds"].startswith("-") else part
    if found["sign"] == "-":
        nanoseconds = -nanoseconds
    return bool(numbers) and 0 <= nanoseconds <= INT64_MAX * 10**9


OFFSET_RESET: Final = ValueKind(ConfigType.STRING, _parse)
