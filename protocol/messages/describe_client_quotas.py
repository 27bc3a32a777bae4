"""DescribeClientQuotas (key 48): the quotas of users and clients (KIP-546).

| version | what is new |
|---|---|
| 1 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Float64, Int8, Int16, Int32


@struct
class ComponentData:
    """One part of the filter: match type 0 is a name, 1 the default, 2 any."""

    entity_type: str
    match_type: Int8
    match: str | None


@request(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """A filter of the entities to describe; `strict` leaves out entities that have other parts as well."""

    components: list[ComponentData]
    strict: bool = False


@struct
class EntityData:
    """One part of an entity; null names the default."""

    entity_type: str
    entity_name: str | None


@struct
class ValueData:
    """One quota."""

    key: str
    value: Float64


@struct
class EntryData:
    """One entity and its quotas."""

    entity: list[EntityData]
    values: list[ValueData]


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The matching entities that have quotas; null with an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)
