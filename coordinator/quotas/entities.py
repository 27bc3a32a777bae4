"""What quotas are about: the keys, as Kafka names them, and the entities that they are set for (Q1, Q2).

An entity is a user, a client id, a user with a client id, or an address. The name of each part may be the default,
which stands for all that have no rule of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, TypeAlias

from coordinator.topics.config_values import INT32_MAX, INT64_MAX

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types and names of an entity's parts, by type; None is the default."""

MAX_ENTITIES: Final = 10_000
"""Most entities with quotas, a bound of Muster's own: all are in one file, which is written whole."""

MAX_NAME_BYTES: Final = 4_096
"""Most bytes of the names of one entity together: names of certificates are long, and 10,000 are 40 MB then."""


class InvalidQuota(Exception):
    """Raised for an entity or a value that no quota may have; the text is Kafka's for INVALID_REQUEST."""


@dataclass(frozen=True, slots=True)
class _Key:
    """The values that a key may have: whole numbers up to `most`, or any number above 0 where that is None."""

    most: int | None = None
    type_name: str = ""


_OF_CLIENTS: Final[Mapping[str, _Key]] = {
    PRODUCER_BYTE_RATE: _Key(INT64_MAX, "LONG"),
    CONSUMER_BYTE_RATE: _Key(INT64_MAX, "LONG"),
    REQUEST_PERCENTAGE: _Key(),
    CONTROLLER_MUTATION_RATE: _Key(),
}
_OF_ADDRESSES: Final[Mapping[str, _Key]] = {CONNECTION_CREATION_RATE: _Key(INT32_MAX, "INT")}

CLIENT_KEYS: Final = tuple(_OF_CLIENTS)
"""The keys of quotas of users and clients."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity of these parts; of a type that is given twice the last counts, as in Kafka."""
    return tuple(sorted(dict(parts).items()))


def check_entity(entity: Entity) -> None:
    """Raise InvalidQuota unless quotas may be set for `entity` (Q1)."""
    if not entity:
        raise InvalidQuota("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise InvalidQuota(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise InvalidQuota(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return
    if len(names) > 1:
        words = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        raise InvalidQuota(words)
    address = names[IP]
    if address is not None and parsed_address(address) is None:
        raise InvalidQuota(f"{address} is not a valid IP or resolvable host.")


def parsed_address(text: str) -> str | None:
    """Return the address `text` as a peer's is written, IPv4 also where it is mapped into IPv6; None: it is none.

    Names are not resolved: that would wait for a server of names, and Kafka resolves them only once.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raise InvalidQuota unless `key` may be `value` for an entity that is valid (Q2)."""
    known = (_OF_ADDRESSES if dict(entity).keys() == {IP} else _OF_CLIENTS).get(key)
    if known is None:
        raise InvalidQuota(f"Invalid configuration key {key}")
    if math.isnan(value) or value <= 0:  # Kafka keeps a NaN, and whoever it is for is throttled for ever.
        raise InvalidQuota(f"Quota {key} must be greater than 0")
    if known.most is None:
        return
    if value > float(known.most):
        raise InvalidQuota(f"Proposed value for {key} is too large for {_article(known.type_name)}.")
    if abs(math.fmod(value, 1.0)) > 1e-6:
        raise InvalidQuota(f"{key} cannot be a fractional value.")


def _article(type_name: str) -> str:
    return f"{'an' if type_name == 'INT' else 'a'} {type_name}"


def name_of(entity: Entity) -> str:
    """Return the text under which an entity's quotas are stored."""
    return json.dumps(dict(entity), ensure_ascii=False, sort_keys=True)


def entity_from(name: str) -> Entity:
    """Return the entity that is stored as `name`. Raises ValueError if it is none."""
    parts = json.loads(name)
    if not isinstance(parts, dict) or not all(
        text is None or isinstance(text, str) for text in parts.values()
    ):
        raise ValueError(f"{name} is no entity")
    return entity_of(parts.items())


def name_bytes(entity: Entity) -> int:
    """Return the bytes of all names of an entity."""
    return sum(len(name.encode()) for _, name in entity if name is not None)
