"""The metadata and the assignments of the group of nodes on the backing cluster, in bytes.

A version of two bytes and a flexible body, as in the records of coordinators: a later version of Muster may say
more under a tag. What has a version that is not known here is not understood, and its reader goes by what it knew.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Any, Final, TypeVar

from coordinator.backing.kafka.claim_records import EndpointValue, endpoint_values, endpoints_of
from coordinator.backing.nodes import NodeIdentity, NodeTable
from protocol.codec.codec import data, decode, encode, struct
from protocol.codec.primitives import Int32, Int64
from protocol.errors import DecodeError

VERSION: Final = 0
DEFLATED_VERSION: Final = 1
"""Of a table: the body of version 0, deflated."""
PLAIN_BYTES_MAX: Final = 2_048
"""Of a table: about ten nodes and 200 shards."""
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a deflated table may become: of 1,000 nodes and 100,000 shards it is half a MiB."""
_PREFIX: Final = Struct(">h")
T = TypeVar("T")


class UnreadableNodeError(Exception):
    """Another node says what this version cannot read."""


@struct
class NodeValue:
    """`nodes.NodeIdentity`."""

    node_id: Int32
    incarnation: str
    started_ms: Int64
    endpoints: list[EndpointValue]
    rack: str | None
    table_number: Int64


@data(versions="0", flexible="0+")
class ShownNode:
    """What a member of the group says of itself."""

    node: NodeValue


@data(versions="0", flexible="0+")
class TableValue:
    """`nodes.NodeTable`."""

    nodes: list[NodeValue]
    owners: list[Int32]
    number: Int64


def encode_node(node: NodeIdentity) -> bytes:
    """A node as it shows itself."""
    return _PREFIX.pack(VERSION) + encode(ShownNode(node=_value(node)), VERSION)


def decode_node(content: bytes | None) -> NodeIdentity:
    """Raises UnreadableNodeError."""
    return _identity(_decoded(ShownNode, content).node)


def encode_table(table: NodeTable) -> bytes:
    """The table that one node has made."""
    value = TableValue(
        nodes=[_value(node) for node in table.nodes], owners=list(table.owners), number=table.number
    )
    body = encode(value, VERSION)
    if len(body) <= PLAIN_BYTES_MAX:
        return _PREFIX.pack(VERSION) + body
    return _PREFIX.pack(DEFLATED_VERSION) + zlib.compress(body, zlib.Z_BEST_COMPRESSION)


def decode_table(content: bytes | None) -> NodeTable:
    """Raises UnreadableNodeError."""
    if content is not None and content[: _PREFIX.size] == _PREFIX.pack(DEFLATED_VERSION):
        content = _PREFIX.pack(VERSION) + _inflated(content[_PREFIX.size :])
    value = _decoded(TableValue, content)
    return NodeTable(tuple(map(_identity, value.nodes)), tuple(value.owners), value.number)


def _inflated(body: bytes) -> bytes:
    inflating = zlib.decompressobj()
    try:
        inflated = inflating.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise UnreadableNodeError(str(error)) from None
    if not inflating.eof:
        raise UnreadableNodeError("it ends early, or is larger than any table")
    return inflated


def _decoded(kind: type[T], content: bytes | None) -> T:
    if content is None or content[: _PREFIX.size] != _PREFIX.pack(VERSION):
        raise UnreadableNodeError("it is of a version that is not known here")
    try:
        return decode(kind, VERSION, content, _PREFIX.size)
    except DecodeError as error:
        raise UnreadableNodeError(str(error)) from None


def _value(node: NodeIdentity) -> NodeValue:
    return NodeValue(
        node_id=node.node_id,
        incarnation=node.incarnation,
        started_ms=node.started_ms,
        endpoints=endpoint_values(node.endpoints),
        rack=node.rack,
        table_number=node.table_number,
    )


def _identity(value: Any) -> NodeIdentity:
    return NodeIdentity(
        node_id=value.node_id,
        incarnation=value.incarnation,
        started_ms=value.started_ms,
        endpoints=endpoints_of(value.endpoints),
        rack=value.rack,
        table_number=value.table_number,
    )
