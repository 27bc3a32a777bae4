"""The header of a record batch (magic 2): parse, check, walk, and give it its place in a log.

A batch is 61 header bytes and a payload of records, which may be compressed. Everything a log or a data
plane must know stands in the header, so batches are walked, checked and stored without a look at their
records, and without a copy: a `Batch` is the parsed header and the position where it was found.

The CRC-32C covers what follows it, from the attributes on. Base offset and leader epoch stand before
it, so the log can set them in place. Older formats (magic 0 and 1) are refused: no client that speaks
the served versions of Produce may send them. This module knows no files, no topics and no records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from google_crc32c import value as crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = 2
LOG_OVERHEAD: Final = 12  # Base offset and length, which the length does not count.
BATCH_OVERHEAD: Final = 61  # The whole header, log overhead included: the smallest batch there is.
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = Struct(">qiibIhiqqqhii")
BASE_OFFSET: Final = Struct(">q")
LENGTH: Final = Struct(">i")
LENGTH_POSITION: Final = 8
LEADER_EPOCH: Final = Struct(">i")
LEADER_EPOCH_POSITION: Final = 12
CRC: Final = Struct(">I")
CRC_POSITION: Final = 17
ATTRIBUTES: Final = Struct(">h")
MAX_TIMESTAMP: Final = Struct(">q")
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER: Final = Struct(">qhi")
PRODUCER_POSITION: Final = 43
CHECKED_FROM: Final = 21  # The CRC covers the batch from here to its end.
SEQUENCE_MODULUS: Final = 2**31


class CorruptBatch(ValueError):
    """Bytes that are no batch of magic 2, or a batch that contradicts itself."""


class UnsupportedMagic(CorruptBatch):
    """A batch of another format than magic 2."""


class Codec(IntEnum):
    """How a batch's records are compressed; the number stands in the low bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchProducer(NamedTuple):
    """Who wrote a batch, and the sequence number of its first record; all -1 without idempotence."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER: Final = BatchProducer()


@dataclass(slots=True)
class Batch:
    """A batch header, and where in its buffer the batch begins. `size_bytes` counts the whole batch."""

    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def magic(self) -> int:
        return MAGIC

    @property
    def end(self) -> int:
        """Where in the buffer the next batch begins."""
        return self.position + self.size_bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        """The compression of the payload. Raises CorruptBatch on a number that names none."""
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            raise CorruptBatch(f"unknown compression type {number}")
        return Codec(number)

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp_ms` is the broker's, and that of every record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are transaction markers, which only a broker may write."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction put a delete horizon where the base timestamp was (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS


def parse_header(buffer: Buffer, position: int = 0) -> Batch:
    """Return the header at `position`, unchecked beyond its shape; the rest of the batch need not be there.

    Raises UnsupportedMagic, or CorruptBatch where no header fits or its length cannot be.
    """
    if position < 0 or len(buffer) - position < BATCH_OVERHEAD:
        raise CorruptBatch(
            f"{len(buffer) - position} bytes left at byte {position}: no room for a batch header"
        )
    (base_offset, length, epoch, magic, crc, attributes, last_delta, base_ms, max_ms,
     producer_id, producer_epoch, sequence, count) = HEADER.unpack_from(buffer, position)  # fmt: skip
    if magic != MAGIC:
        raise UnsupportedMagic(f"batch of magic {magic} at byte {position}")
    size_bytes = LOG_OVERHEAD + length
    if size_bytes < BATCH_OVERHEAD:
        raise CorruptBatch(f"batch at byte {position} says it has {size_bytes} bytes")
    return Batch(position, size_bytes, base_offset, epoch, crc, attributes, last_delta, base_ms, max_ms,
                 producer_id, producer_epoch, sequence, count)  # fmt: skip


def check_crc(buffer: Buffer, batch: Batch) -> bool:
    """Whether the whole batch is in `buffer` and its CRC-32C is right."""
    if batch.end > len(buffer):
        return False
    return checksum(memoryview(buffer)[batch.position : batch.end]) == batch.crc


def checksum(batch: Buffer) -> int:
    """Return the CRC-32C that belongs into the header of `batch`, which is exactly one batch."""
    # The library takes nothing but bytes; this copy costs half as much as the sum itself.
    crc: int = crc32c(bytes(memoryview(batch)[CHECKED_FROM:]))
    return crc


def checked_part(buffer: Buffer, batch: Batch) -> bytes:
    """Return a copy of the bytes that the CRC of `batch` covers, for both `crc_matches` and a walk of records."""
    return bytes(memoryview(buffer)[batch.position + CHECKED_FROM : batch.end])


def crc_matches(part: bytes, batch: Batch) -> bool:
    """Whether the `checked_part` of `batch` has the CRC-32C that its header names."""
    return bool(crc32c(part) == batch.crc)


def read_batch(buffer: Buffer, position: int, min_offset: int = 0) -> Batch | None:
    """Return the batch at `position` if it is whole and sound, else None.

    Sound is: length and magic possible, counts and deltas not negative, base offset at or above
    `min_offset`, CRC-32C right. A torn tail, zeros and noise all give None.
    """
    # All in one place, and nothing built before it checks: a start walks through every batch of a log.
    if not 0 <= position <= len(buffer) - BATCH_OVERHEAD:
        return None
    (base_offset, length, epoch, magic, crc, attributes, last_delta, base_ms, max_ms,
     producer_id, producer_epoch, sequence, count) = HEADER.unpack_from(buffer, position)  # fmt: skip
    size_bytes = LOG_OVERHEAD + length
    if magic != MAGIC or not BATCH_OVERHEAD <= size_bytes <= len(buffer) - position:
        return None
    if base_offset < min_offset or last_delta < 0 or count < 0:
        return None
    if crc32c(bytes(buffer[position + CHECKED_FROM : position + size_bytes])) != crc:
        return None
    return Batch(position, size_bytes, base_offset, epoch, crc, attributes, last_delta, base_ms, max_ms,
                 producer_id, producer_epoch, sequence, count)  # fmt: skip


def walk(buffer: Buffer, position: int = 0) -> Iterator[Batch]:
    """Yield the headers of the batches in `buffer`, CRC unchecked; nothing is copied.

    Stops before a last batch that is cut short, as fetched data may end with one. Raises CorruptBatch at
    bytes that cannot begin a batch, so a walk always moves on.
    """
    end = len(buffer)
    while end - position >= BATCH_OVERHEAD:
        batch = parse_header(buffer, position)
        position = batch.end
        if position > end:
            return
        yield batch


def set_base_offset(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at the start of `batch` its place in a log; both fields lie outside the CRC."""
    BASE_OFFSET.pack_into(batch, 0, base_offset)
    LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_POSITION, leader_epoch)


def set_producer(batch: bytearray | memoryview, producer: BatchProducer) -> None:
    """Set who wrote `batch`, exactly one batch, and compute its CRC again."""
    PRODUCER.pack_into(batch, PRODUCER_POSITION, *producer)
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))


def set_max_timestamp(batch: bytearray | memoryview, max_timestamp_ms: int, *, log_append_time: bool) -> None:
    """Set the timestamp type and the maximum timestamp of `batch`, exactly one batch, and compute its CRC again.

    With `log_append_time` that timestamp is the broker's and stands for every record of the batch.
    """
    (attributes,) = ATTRIBUTES.unpack_from(batch, CHECKED_FROM)
    bit = LOG_APPEND_TIME_BIT if log_append_time else 0
    ATTRIBUTES.pack_into(batch, CHECKED_FROM, attributes & ~LOG_APPEND_TIME_BIT | bit)
    MAX_TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
