"""The bytes of a claim: one record in a batch of its own, beside the records of groups.

As in all records of coordinators an int16 type and a body are the key, an int16 version and a body the value. The
type is far from Kafka's, whose own readers pass over a type that they do not know. The value is flexible: a later
version of Muster may say more under a tag, and this one reads the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from coordinator.backing.claims import NO_HEIR, Claim, ClaimKind, Endpoint, Writer
from protocol.codec.codec import data, decode, encode, since, struct
from protocol.codec.primitives import Int8, Int32, Int64
from protocol.errors import DecodeError
from protocol.records.records import Record

CLAIM_TYPE: Final = 20_000
VALUE_VERSION: Final = 0
_PREFIX: Final = Struct(">h")
_CODES: Final = {ClaimKind.CLAIMED: 0, ClaimKind.RELEASED: 1, ClaimKind.SEALED: 2}
_KINDS: Final = {code: kind for kind, code in _CODES.items()}


class UnreadableClaimError(Exception):
    """A claim that this version cannot read: who may write the log is not known."""


@data(versions="0", flexible="none")
class ClaimKey:
    """Compaction keeps what was last said under each producer id."""

    producer_id: Int64


@struct
class EndpointValue:
    """`claims.Endpoint`."""

    listener: str
    host: str
    port: Int32


@data(versions="0", flexible="0+")
class ClaimValue:
    """`claims.Claim`; `kind` is 0 claimed, 1 released, 2 sealed."""

    kind: Int8
    node_id: Int32
    lease_ms: Int32
    was_active: bool
    endpoints: list[EndpointValue]
    heir_id: Int32 = since(0, tag=0, default=NO_HEIR)


def endpoint_values(endpoints: Iterable[Endpoint]) -> list[EndpointValue]:
    """Where a node is found, to be encoded."""
    return [EndpointValue(listener=each.listener, host=each.host, port=each.port) for each in endpoints]


def endpoints_of(values: Iterable[EndpointValue]) -> tuple[Endpoint, ...]:
    """Where a node is found, as it was decoded."""
    return tuple(Endpoint(each.listener, each.host, each.port) for each in values)


def claim_record(claim: Claim, writer: Writer, wall_ms: int) -> Record:
    """The record of a claim that `writer` makes."""
    key = _PREFIX.pack(CLAIM_TYPE) + encode(ClaimKey(producer_id=writer.producer_id), 0)
    value = ClaimValue(
        kind=_CODES[claim.kind],
        node_id=claim.node_id,
        lease_ms=claim.lease_ms,
        was_active=claim.was_active,
        endpoints=endpoint_values(claim.endpoints),
        heir_id=claim.heir_id,
    )
    return Record(key, _PREFIX.pack(VALUE_VERSION) + encode(value, VALUE_VERSION), wall_ms)


def read_claim(record: Record) -> Claim | None:
    """The claim that a record is; None for another record. Raises UnreadableClaimError."""
    key, value = record.key, record.value
    if key is None or key[: _PREFIX.size] != _PREFIX.pack(CLAIM_TYPE):
        return None
    try:
        if value is None or value[: _PREFIX.size] != _PREFIX.pack(VALUE_VERSION):
            raise UnreadableClaimError(f"the claim at offset {record.offset} is of a version not known here")
        read = decode(ClaimValue, VALUE_VERSION, value, _PREFIX.size)
        endpoints = endpoints_of(read.endpoints)
        kind = _KINDS[read.kind]
        return Claim(kind, read.node_id, read.lease_ms, read.was_active, endpoints, read.heir_id)
    except (DecodeError, KeyError) as error:
        raise UnreadableClaimError(f"the claim at offset {record.offset} cannot be read: {error}") from None
