"""The zigzag varints of records: signed numbers, small ones short. Nothing else in the protocol uses them.

A record of the usual size is mostly made of numbers that come again and again (lengths, offset deltas), so
written varints are remembered: `VARINTS[number]` is a plain dict look-up, which is what makes a pure
Python encoder quick. The unsigned varints of the flexible messages are `primitives`' business.
"""

from __future__ import annotations

from typing import Final

from protocol.records.batch import CorruptBatch

MAX_REMEMBERED: Final = 16384
"""Numbers below it are remembered once written, about 80 bytes each: at most 1.3 MB. They are the lengths
and offset deltas of ordinary batches; a peer's larger ones are made each time again."""

VARINT_SHIFTS: Final = range(0, 64, 7)  # Ten bytes hold 64 bits; an eleventh is nonsense.


class VarintTable(dict[int, bytes]):
    """Maps any number of 64 bits to its zigzag varint, made on first use."""

    def __missing__(self, number: int) -> bytes:
        encoded = encode_varint(number)
        if -1 <= number < MAX_REMEMBERED:
            self[number] = encoded
        return encoded


def encode_varint(number: int) -> bytes:
    """Return `number`, of at most 64 bits, as a zigzag varint (in Kafka's words a VARINT or a VARLONG)."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, and the position after it.

    Raises IndexError past the end of `data`, CorruptBatch beyond 64 bits.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        rest = byte & 0x7F | second << 7
        return (rest >> 1) ^ -(rest & 1), position + 2
    return read_long_varint(data, position)


def read_long_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, of any length, and the position after it."""
    rest = 0
    for shift in VARINT_SHIFTS:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
    raise CorruptBatch(f"number of more than 64 bits before byte {position}")


VARINTS: Final = VarintTable()

ONE_BYTE_VARINTS: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
"""The number that each single-byte varint stands for: loops over records read these without a call."""
