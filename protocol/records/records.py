"""Records and the batches that carry them (magic 2): keys, values, headers, timestamps, offsets.

A record is written relative to its batch: offset and timestamp as deltas, all lengths as zigzag
varints. The offsets log is written through `encode_batch` at every group commit, so that loop does one
join per record and looks its varints up; `iter_records` reads the same with slices of one bytes object.
Both are plain Python: a record costs about a microsecond to write and two to read.

Batch headers are `record_batch`'s; its names are offered here too, so that one import does. This module
knows no files, topics or groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    CRC,
    CRC_POSITION,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    Batch,
    Buffer,
    Codec,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    checksum,
    parse_header,
    read_batch,
    set_base_offset,
    set_max_timestamp,
    walk,
)
from protocol.records.compression import MAX_INFLATED_BYTES, compress, decompress
from protocol.records.run import NO_ATTRIBUTES, NO_HEADERS, RecordRun
from protocol.records.varint import VARINTS, read_varint

__all__ = [
    "BATCH_OVERHEAD",
    "MAX_INFLATED_BYTES",
    "Batch",
    "Buffer",
    "Codec",
    "CorruptBatch",
    "Record",
    "UnsupportedMagic",
    "check_crc",
    "encode_batch",
    "iter_payload",
    "iter_records",
    "parse_header",
    "payload_of",
    "read_batch",
    "read_records",
    "set_base_offset",
    "set_max_timestamp",
    "size_upper_bound",
    "walk",
]

RECORD_OVERHEAD_BYTES: Final = 1 + 10 + 4 * 5 + 5  # Attributes, timestamp delta, four other varints, length.
HEADER_OVERHEAD_BYTES: Final = 2 * 5  # Two lengths.
MIN_RECORD_BYTES: Final = (
    7  # One byte each: length, attributes, two deltas, key and value length, header count.
)
MIN_HEADER_BYTES: Final = 2
NULL_LENGTH: Final = VARINTS[-1]

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(slots=True)
class Record:
    """One record. `timestamp_ms` is the time of day; `offset` is -1 until the record came from a log."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()
    offset: int = -1

    @property
    def count(self) -> int:
        """Number of records, as a run has it; as C a data class can have no class variable."""
        return 1

    @property
    def size_bytes(self) -> int:
        """Of key and value."""
        return len(self.key or b"") + len(self.value or b"")


def encode_batch(
    records: Sequence[Record | RecordRun],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
) -> bytearray:
    """One whole batch of `records`, at consecutive offsets from `base_offset` on, ready for a log.

    `Record.offset` is not looked at. Raises ValueError where there are no records: Kafka has no such batch.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    attributes = codec | transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
    attributes |= log_append_time * LOG_APPEND_TIME_BIT
    count = sum([record.count for record in records])
    base_ms = records[0].timestamp_ms
    max_ms = max([record.timestamp_ms for record in records])
    payload = b"".join(encode_records(records, base_ms))
    if codec:
        payload = compress(codec, payload)
    header = bytearray(BATCH_OVERHEAD)
    length = BATCH_OVERHEAD - LOG_OVERHEAD + len(payload)
    HEADER.pack_into(header, 0, base_offset, length, leader_epoch, MAGIC, 0, attributes, count - 1,
                     base_ms, max_ms, producer_id, producer_epoch, base_sequence, count)  # fmt: skip
    batch = header + payload
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
    return batch


def encode_records(records: Iterable[Record | RecordRun], base_ms: int) -> list[bytes]:
    """The chunks of the payload: for each record its length, then its body; a run is one chunk."""
    chunks: list[bytes] = []
    varints, join, null, none = VARINTS, b"".join, NULL_LENGTH, b""
    delta = 0
    for record in records:
        if isinstance(record, RecordRun):
            chunks.append(record.encode(delta, base_ms))
            delta += record.count
            continue
        key, value, headers = record.key, record.value, record.headers
        if key is None:
            key, key_length = none, null
        else:
            key_length = varints[len(key)]
        if value is None:
            value, value_length = none, null
        else:
            value_length = varints[len(value)]
        body = join(
            (
                NO_ATTRIBUTES,
                varints[record.timestamp_ms - base_ms],
                varints[delta],
                key_length,
                key,
                value_length,
                value,
                encode_headers(headers) if headers else NO_HEADERS,
            )
        )
        chunks += (varints[len(body)], body)
        delta += 1
    return chunks


def encode_headers(headers: Headers) -> bytes:
    chunks = [VARINTS[len(headers)]]
    for name, value in headers:
        encoded = name.encode()
        chunks += (VARINTS[len(encoded)], encoded)
        chunks += (NULL_LENGTH,) if value is None else (VARINTS[len(value)], value)
    return b"".join(chunks)


def size_upper_bound(records: Iterable[Record]) -> int:
    """Bytes that an uncompressed batch of `records` will not exceed: to cut batches before encoding."""
    size = BATCH_OVERHEAD
    for record in records:
        size += RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        for name, value in record.headers:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size


def read_records(buffer: Buffer, batch: Batch, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> list[Record]:
    """All records of `batch`, which must be whole in `buffer`; see `iter_records`."""
    return list(iter_records(buffer, batch, max_inflated_bytes))


def payload_of(buffer: Buffer, batch: Batch, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """The records of `batch` as bytes, inflated. Raises CorruptBatch, also beyond the bound (InflatesTooMuch)
    and where so few bytes cannot hold as many records as the header says."""
    if batch.end > len(buffer):
        raise CorruptBatch(
            f"batch of {batch.size_bytes} bytes is cut short at {len(buffer) - batch.position}"
        )
    compressed = memoryview(buffer)[batch.position + BATCH_OVERHEAD : batch.end]
    is_compressed = batch.attributes & CODEC_MASK
    payload = decompress(batch.codec, compressed, max_inflated_bytes) if is_compressed else bytes(compressed)
    if not 0 <= batch.record_count * MIN_RECORD_BYTES <= len(payload):
        raise CorruptBatch(f"{batch.record_count} records in {len(payload)} bytes")
    return payload


def iter_records(
    buffer: Buffer, batch: Batch, max_inflated_bytes: int = MAX_INFLATED_BYTES
) -> Iterator[Record]:
    """The records of `batch` one by one, with their offsets and timestamps; only the payload is held.

    Raises CorruptBatch where the payload does not inflate within the bound, or is anything but exactly
    `record_count` whole records. The CRC is the caller's to check.
    """
    return iter_payload(payload_of(buffer, batch, max_inflated_bytes), batch)


def iter_payload(data: bytes, batch: Batch, position: int = 0, first: int = 0) -> Iterator[Record]:
    """As `iter_records`, of an inflated payload; from record number `first` on, which begins at `position`."""
    base_offset, base_ms = batch.base_offset, batch.base_timestamp_ms
    fixed_ms = batch.max_timestamp_ms if batch.is_log_append_time else None
    limit = len(data)
    try:
        for _ in range(first, batch.record_count):
            size, position = read_varint(data, position)
            end = position + size
            if end > limit:
                raise CorruptBatch(f"record of {size} bytes, {limit - position} left")
            # A number of one byte is read here, without the call: most are.
            delta_ms = data[position + 1]
            if delta_ms < 0x80:
                delta_ms, position = (delta_ms >> 1) ^ -(delta_ms & 1), position + 2
            else:
                delta_ms, position = read_varint(data, position + 1)
            delta, position = read_varint(data, position)
            key_size = data[position]
            if key_size < 0x80:
                key_size, position = (key_size >> 1) ^ -(key_size & 1), position + 1
            else:
                key_size, position = read_varint(data, position)
            key = None
            if key_size >= 0:
                key, position = data[position : position + key_size], position + key_size
            value_size = data[position]
            if value_size < 0x80:
                value_size, position = (value_size >> 1) ^ -(value_size & 1), position + 1
            else:
                value_size, position = read_varint(data, position)
            value = None
            if value_size >= 0:
                value, position = data[position : position + value_size], position + value_size
            headers: Headers = ()
            if data[position]:
                headers, position = read_headers(data, position)
            else:
                position += 1
            if position != end:
                raise CorruptBatch(f"record ends at byte {position} where its length says {end}")
            yield Record(
                key, value, base_ms + delta_ms if fixed_ms is None else fixed_ms, headers, base_offset + delta
            )
    except IndexError:
        raise CorruptBatch("records end too early") from None
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes after the last record")


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """The headers whose count stands at `position`, and where they end. A name that is not UTF-8 is read with
    replacement characters, as Kafka's clients read it."""
    count, position = read_varint(data, position)
    if not 0 <= count <= (len(data) - position) // MIN_HEADER_BYTES:
        raise CorruptBatch(f"{count} headers, {len(data) - position} bytes left")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = read_sized(data, position)
        value, position = read_sized(data, position)
        if name is None:
            raise CorruptBatch("header without a name")
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size
