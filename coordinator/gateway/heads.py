"""The heads of requests: what of a frame has to be read before the rest may pass on."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from protocol.codec.primitives import Buffer, read_uvarint
from protocol.errors import DecodeError
from protocol.framing import REQUEST_HEADER, skip_tagged_fields

_INT16: Final = Struct(">h")
_FLEXIBLE_PRODUCE: Final = 9
_WITH_TRANSACTIONAL_ID: Final = 3


class Head(NamedTuple):
    """The head of one request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: bytes
    end: int
    """Where the tagged fields of the header begin, if the version has any, and else the message."""


def head_at(frame: Buffer, start: int) -> Head:
    """The head of the frame that begins at `start`, behind its size. Raises DecodeError if it ends early."""
    try:
        key, version, correlation_id, length = REQUEST_HEADER.unpack_from(frame, start)
    except StructError as error:
        raise DecodeError(f"no header: {error}") from None
    begin = start + REQUEST_HEADER.size
    end = begin + max(length, 0)
    if end > len(frame):
        raise DecodeError(f"a client id of {length} bytes in a shorter frame")
    return Head(key, version, correlation_id, bytes(frame[begin:end]), end)


def with_client_id(frame: bytes, client_id: bytes) -> bytes:
    """A request that has no client id with this one; both without their sizes."""
    key, version, correlation_id, _ = REQUEST_HEADER.unpack_from(frame)
    begin = REQUEST_HEADER.pack(key, version, correlation_id, len(client_id))
    return begin + client_id + frame[REQUEST_HEADER.size :]


def acks_of(frame: Buffer, head: Head) -> int:
    """The `acks` of a Produce request, which is without an answer if they are 0. Raises DecodeError."""
    position = head.end
    try:
        if head.version >= _FLEXIBLE_PRODUCE:
            length, position = read_uvarint(frame, skip_tagged_fields(frame, position))
            position += max(length - 1, 0)
        elif head.version >= _WITH_TRANSACTIONAL_ID:
            position += _INT16.size + max(_INT16.unpack_from(frame, position)[0], 0)
        return int(_INT16.unpack_from(frame, position)[0])
    except (StructError, IndexError) as error:
        raise DecodeError(f"Produce: {error}") from None
