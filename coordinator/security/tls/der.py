"""Reading DER, the encoding of certificates and keys: just what walks to a field, with every length checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
OCTET_STRING: Final = 0x04
BOOLEAN: Final = 0x01

_LONG_FORM: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4


class DerError(ValueError):
    """Raised for bytes that are not what they should be."""


class Element(NamedTuple):
    """One value, with its tag: `content` is what the tag says, `whole` all bytes of it."""

    tag: int
    content: bytes
    whole: bytes

    def children(self) -> list[Element]:
        """Return the values in this one."""
        return list(elements(self.content))


def elements(data: bytes) -> Iterator[Element]:
    """Yield the values in `data`, one behind the other. Raises DerError if there is anything else."""
    position = 0
    while position < len(data):
        element = element_at(data, position)
        yield element
        position += len(element.whole)


def element_at(data: bytes, position: int = 0) -> Element:
    """Return the value at `position`. Raises DerError."""
    if len(data) - position < 2:
        raise DerError("cut short")
    tag, length, content_at = data[position], data[position + 1], position + 2
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 1 <= count <= _LENGTH_BYTES_MAX:
            raise DerError("a length that DER does not have")
        length = int.from_bytes(data[content_at : content_at + count], "big")
        content_at += count
    stop = content_at + length
    if stop > len(data):
        raise DerError("cut short")
    return Element(tag, data[content_at:stop], data[position:stop])


def object_identifier(content: bytes) -> str:
    """Return the identifier in dots. Raises DerError."""
    if not content or content[-1] & 0x80:
        raise DerError("cut short")
    arcs: list[int] = []
    arc = 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))
