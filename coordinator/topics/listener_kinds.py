"""Settings `listener.name.<x>.<setting>` of single listeners that may be changed while the daemon runs (Q21, T35).

They are a listener's limits on connections, and where its keys and certificates are. Whether there is such a
listener is for the server to say.
"""

from __future__ import annotations

import re
from typing import Final

from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.config_values import ValueKind, any_text, whole
from protocol.messages.describe_configs import ConfigType

MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"
LIMITS: Final = frozenset({MAX_CONNECTIONS, CREATION_RATE})
"""Limits of a listener, beside the daemon's own of the same names."""

STORES: Final = frozenset(
    {
        *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        *("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password"),
        "ssl.truststore.certificates",
    }
)
"""Settings that say where keys and certificates are: only with a listener's prefix, and for one node."""

_PREFIXED: Final = re.compile(r"listener\.name\.([^.]*)\.(.*)")


def parts_of(name: str) -> tuple[str, str] | None:
    """Return a listener's name as it is in `name`, and the setting; None without such a prefix."""
    found = _PREFIXED.fullmatch(name)
    return None if found is None else (found[1], found[2])


def prefixed(listener: str, option: str) -> str:
    """Return the name of the setting `option` of the listener."""
    return f"listener.name.{listener.lower()}.{option}"


def option_of(name: str) -> str:
    """Return the setting without the listener that it is for, if it is for one."""
    parts = parts_of(name)
    return name if parts is None else parts[1]


def kind_for_listener(name: str) -> ValueKind | None:
    """Return the kind of a setting of one listener that may change; None: that is none."""
    parts = parts_of(name)
    if parts is None:
        return None
    return _KINDS.get(parts[1])


def is_only_per_node(name: str) -> bool:
    """Whether the setting is for a listener, and cannot be changed for all nodes together."""
    parts = parts_of(name)
    return parts is not None and parts[1] in STORES


_KINDS: Final[dict[str, ValueKind]] = {
    **dict.fromkeys(LIMITS, whole(ConfigType.INT, 0)),
    **{name: any_text(BROKER_OPTIONS[name].type) for name in STORES},
}
