"""Client metrics subscriptions (KIP-714): which metrics which clients are asked to push, and how often.

`KEYS` is the table of what can be set, in the order in which Kafka parses it; refusals are in its words. A pattern
of `match` has RE2's syntax, where Kafka's is that of java.util.regex: what RE2 lacks (look-around, possessive
quantifiers, back-references) is refused as a pattern that does not compile is in Kafka.

What was set is kept in `client-metrics.json` in the log directory. Knows no requests and no clients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.topics.config_values import InvalidConfig, ValueKind, whole
from coordinator.topics.resource_configs import ConfigFile
from protocol.messages.describe_configs import ConfigType

CLIENT_METRICS_FILE: Final = ConfigFile(
    "client-metrics.json", "file of client metrics subscriptions", "subscriptions"
)

MAX_SUBSCRIPTIONS: Final = 1_000
"""Most subscriptions, a bound of Muster's own: each client is matched with all of them."""

MAX_SUBSCRIPTION_NAME_BYTES: Final = 1_000

MAX_METRIC_BYTES: Final = 256
"""Longest beginning of a metric's name that is asked for, a bound of Muster's own."""

MAX_PATTERN_BYTES: Final = 1_000
"""Longest pattern of `match`, and below the memory of a compiled one: bounds of Muster's own."""
MAX_PATTERN_MEMORY_BYTES: Final = 1 << 18

METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
DEFAULT_INTERVAL_MS: Final = 300_000

MATCHED: Final = frozenset(
    {
        *("client_instance_id", "client_id", "client_software_name", "client_software_version"),
        *("client_source_address", "client_source_port"),
    }
)
"""What of a client a pattern can be about."""

MOST_IN_ALL: Final = {METRICS: 1_000, MATCH: 100}
"""Most values of both lists in all subscriptions together, bounds of Muster's own: a client may be asked for all
names and is matched with all patterns, while all others wait for half a millisecond each."""

_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


class InvalidSubscription(InvalidConfig):
    """Raised for what Kafka refuses as INVALID_REQUEST instead of INVALID_CONFIG."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one subscription asks for; a client has to match each of `patterns`, by what they are about."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]  # Compiled.


def _list(name: str, text: str) -> tuple[str, ...]:
    items = tuple(dict.fromkeys(_COMMA.split(text.strip()))) if text.strip() else ()
    if "" in items:
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
    return items


_NAMES: Final = ValueKind(ConfigType.LIST, _list)
KEYS: Final[Mapping[str, ValueKind]] = {METRICS: _NAMES, INTERVAL_MS: whole(ConfigType.INT), MATCH: _NAMES}
DEFAULTS: Final[Mapping[str, str]] = {METRICS: "", INTERVAL_MS: str(DEFAULT_INTERVAL_MS), MATCH: ""}


def parsed(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what is set, each value as it is shown. Raises InvalidConfig and InvalidSubscription."""
    for name in overrides:
        if name not in KEYS:
            raise InvalidSubscription(f"Unknown client metrics configuration: {name}")
    values = {name: kind.parse(name, overrides[name]) for name, kind in KEYS.items() if name in overrides}
    interval_ms = values.get(INTERVAL_MS, DEFAULT_INTERVAL_MS)
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise InvalidSubscription(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {MIN_INTERVAL_MS} and "
            f"{MAX_INTERVAL_MS} (1 hour)"
        )
    _patterns(values.get(MATCH, ()))
    return {name: str(value) if name == INTERVAL_MS else ",".join(value) for name, value in values.items()}


def list_size(texts: Mapping[str, str], name: str) -> int:
    """Return how many values a list has, of `texts` as `parsed` returns them."""
    text = texts.get(name, "")
    return text.count(",") + 1 if text else 0


def subscription(texts: Mapping[str, str]) -> Subscription:
    """Return what `texts`, as `parsed` returns them, ask for."""
    texts = {**DEFAULTS, **texts}
    return Subscription(
        _list(METRICS, texts[METRICS]), int(texts[INTERVAL_MS]), _patterns(_list(MATCH, texts[MATCH]))
    )


def _patterns(items: tuple[str, ...]) -> dict[str, Any]:
    """Return the compiled patterns; of two about the same the last counts, as in Kafka. Raises InvalidConfig."""
    return dict(map(_pattern, items))


def _pattern(item: str) -> tuple[str, Any]:
    refusal = InvalidConfig(f"Illegal client matching pattern: {item}")
    parts = item.rstrip("=").split("=")  # Java's split drops what is empty at the end.
    if len(parts) != 2 or parts[0].strip() not in MATCHED or len(item.encode()) > MAX_PATTERN_BYTES:
        raise refusal
    return parts[0].strip(), _compiled(parts[1].strip(), refusal)


def _compiled(pattern: str, refusal: InvalidConfig) -> Any:
    import re2  # Only here: it takes 10 ms, and most daemons never see a pattern.

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise refusal from None
    finally:
        re2.purge()  # Empty RE2's own cache, which would keep the last 128 patterns.
