"""The wire's basic types, as annotations that a message class can carry.

To a type checker `Int32` is `int` and `Uuid` is `bytes`; the codec finds beside it how the value looks
on the wire. `str`, `bytes`, `bool`, `list[X]` and `X | None` need no marker and are used as they are.
The one thing here that reads and writes is the unsigned varint, the length of the flexible versions.
"""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from protocol.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of constant size: its letter in the `struct` module, and its size in bytes."""

    code: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Record batches, carried as they are: their inside is `protocol.records.records`' business."""


Int8: TypeAlias = Annotated[int, Fixed("b", 1)]
Int16: TypeAlias = Annotated[int, Fixed("h", 2)]
Int32: TypeAlias = Annotated[int, Fixed("i", 4)]
Int64: TypeAlias = Annotated[int, Fixed("q", 8)]
Uint16: TypeAlias = Annotated[int, Fixed("H", 2)]
Float64: TypeAlias = Annotated[float, Fixed("d", 8)]

Uuid: TypeAlias = Annotated[bytes, Fixed("16s", 16)]
"""A UUID, such as a topic id: 16 bytes, most significant first."""

ZERO_UUID: Final = bytes(16)
"""The UUID that stands for no id."""

Records: TypeAlias = Annotated[bytes | bytearray | memoryview | None, RecordSet()]
"""Decoded as a view of the frame it came in, which that view keeps alive; encoded without a copy."""

BOOLEAN: Final = Fixed("?", 1)
"""What a plain `bool` is on the wire: written as 0 or 1, read as true if not 0."""

MAX_STRING_BYTES: Final = 0x7FFF
"""The longest string in UTF-8 bytes: Kafka keeps the 16-bit bound also where the length is a varint."""

MAX_TAGGED_FIELDS: Final = 1_000
"""Of one structure. Kafka reads as many as a frame has, a quarter of a million before a login; none sends ten."""

MAX_UVARINT_BYTES: Final = 5
"""The longest varint of 32 bits."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read from, or a piece of a message to send. Views are of single bytes and contiguous."""

_LARGEST_UVARINT: Final = 0xFFFFFFFF


def replaced_text(encoded: Buffer) -> str:
    """Return the text in `encoded`, with U+FFFD for what is not UTF-8.

    Raises DecodeError if the text is longer than a string may be: it could not be written again.
    """
    text = str(encoded, "utf-8", "replace")
    if len(encoded) * 3 > MAX_STRING_BYTES and len(text.encode()) > MAX_STRING_BYTES:
        raise DecodeError(f"{len(encoded)} bytes that are not UTF-8 leave no room to replace them")
    return text


def read_uvarint(buffer: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned varint at `pos`; return it and the position behind it.

    Raises DecodeError where it takes more than 32 bits or five bytes, IndexError where the buffer ends.
    """
    value = 0
    for shift in range(0, 7 * MAX_UVARINT_BYTES, 7):
        byte = buffer[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _LARGEST_UVARINT:
                break
            return value, pos
    raise DecodeError("a varint of more than 32 bits")


def encode_uvarint(value: int) -> bytes:
    """Write an unsigned varint; ValueError if it does not fit 32 bits."""
    if not 0 <= value <= _LARGEST_UVARINT:
        raise ValueError(f"{value} does not fit a varint of 32 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
