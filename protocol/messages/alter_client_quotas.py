"""AlterClientQuotas (key 49): set and remove the quotas of users, clients and addresses (KIP-546).

| version | what is new |
|---|---|
| 1 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Float64, Int16, Int32


@struct
class EntityData:
    """One part of an entity; null names the default."""

    entity_type: str
    entity_name: str | None


@struct
class OpData:
    """One quota that is set to `value`, or removed."""

    key: str
    value: Float64 = 0.0
    remove: bool = False


@struct
class EntryData:
    """What changes for one entity."""

    entity: list[EntityData]
    ops: list[OpData]


@request(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Changes of quotas; with `validate_only` they are checked and not made."""

    entries: list[EntryData]
    validate_only: bool = False


@struct
class AlteredEntryData:
    """What became of the changes for one entity."""

    error_code: Int16
    error_message: str | None
    entity: list[EntityData]


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """The outcome for each entity."""

    throttle_time_ms: Int32 = 0
    entries: list[AlteredEntryData] = field(default_factory=list)
