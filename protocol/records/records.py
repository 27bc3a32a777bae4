"""Records and the batches that carry them (magic 2): keys, values, headers, timestamps, offsets.

A record is written relative to its batch: offset and timestamp as deltas, all lengths as zigzag
varints. The offsets log is written through `encode_batch` at every group commit, so that loop does one
join per record and looks its varints up; `iter_records` reads the same with slices of one bytes object.
Both are plain Python: a record costs about a microsecond to write and two to read.

Batch headers are `protocol.records.batch`'s; its names can be imported from here, too. This module
knows no files, topics or groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    Batch,
    BatchProducer,
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
from protocol.records.run import NO_ATTRIBUTES, NO_HEADERS, Run
from protocol.records.varint import ONE_BYTE_VARINTS, VARINTS, read_varint

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
    count = 1  # Number of records, as a run has it. A ClassVar is a field that nothing can set once compiled.

    @property
    def size_bytes(self) -> int:
        """Length of key and value together."""
        return len(self.key or b"") + len(self.value or b"")


def encode_batch(
    records: Sequence[Record | Run],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    producer: BatchProducer = NO_PRODUCER,
    attributes: int = 0,
) -> bytearray:
    """Return one whole batch of `records`, at consecutive offsets from `base_offset` on, ready for a log.

    `attributes` are TRANSACTIONAL_BIT, CONTROL_BIT and LOG_APPEND_TIME_BIT, as far as they are set; the codec's
    bits are added. `Record.offset` is not looked at. Raises ValueError where there are no records: Kafka has no
    such batch.
    """
    count = sum([record.count for record in records])
    if not count:
        raise ValueError("a batch holds at least one record")
    base_ms = records[0].timestamp_ms
    max_ms = max([record.timestamp_ms for record in records])
    payload = b"".join(encode_records(records, base_ms))
    if codec:
        payload = compress(codec, payload)
    producer_id, producer_epoch, base_sequence = producer
    header = bytearray(BATCH_OVERHEAD)
    length = BATCH_OVERHEAD - LOG_OVERHEAD + len(payload)
    HEADER.pack_into(header, 0, base_offset, length, leader_epoch, MAGIC, 0, attributes | codec, count - 1,
                     base_ms, max_ms, producer_id, producer_epoch, base_sequence, count)  # fmt: skip
    batch = header + payload
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
    return batch


def encode_records(records: Iterable[Record | Run], base_ms: int) -> list[bytes]:
    """Return the chunks of the payload: for each record its length, then its body; a run is one chunk."""
    chunks: list[bytes] = []
    varints, join, null, none = VARINTS, b"".join, NULL_LENGTH, b""
    delta = 0
    for record in records:
        if not isinstance(record, Record):
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
    """Return a size in bytes that an uncompressed batch of `records` cannot exceed, to cut batches by."""
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
    """Return the records of `batch` as bytes, inflated. Raises CorruptBatch, also beyond the bound
    (InflatesTooMuch) and where so few bytes cannot hold as many records as the header says."""
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
    """Yield the records of `batch`, with their offsets and timestamps; only the payload is held in memory.

    Raises CorruptBatch where the payload does not inflate within the bound, or is anything but exactly
    `record_count` whole records. The CRC is the caller's to check.
    """
    return iter_payload(payload_of(buffer, batch, max_inflated_bytes), batch)


def iter_payload(data: bytes, batch: Batch, position: int = 0, first: int = 0) -> Iterator[Record]:
    """Yield the records of an inflated payload from record `first` on, at byte `position`. Raises CorruptBatch."""
    base_offset, base_ms = batch.base_offset, batch.base_timestamp_ms
    fixed_ms = batch.max_timestamp_ms if batch.is_log_append_time else None
    limit, small = len(data), ONE_BYTE_VARINTS
    try:
        for _ in range(first, batch.record_count):
            size, position = read_varint(data, position)
            end = position + size
            if end > limit:
                raise CorruptBatch(f"record of {size} bytes, {limit - position} left")
            byte = data[position + 1]  # A number of one byte is read here, without the call: most are.
            delta_ms, position = (
                (small[byte], position + 2) if byte < 0x80 else read_varint(data, position + 1)
            )
            delta, position = read_varint(data, position)
            byte = data[position]
            key_size, position = (small[byte], position + 1) if byte < 0x80 else read_varint(data, position)
            key = None
            if key_size >= 0:
                key, position = data[position : position + key_size], position + key_size
            byte = data[position]
            value_size, position = (small[byte], position + 1) if byte < 0x80 else read_varint(data, position)
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
    except (IndexError, ValueError) as error:
        raise cut_short(error) from None
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes after the last record")


def cut_short(error: IndexError | ValueError) -> CorruptBatch:
    """Return what to raise for `error`, which a walk over records ran into.

    A ValueError that is no CorruptBatch comes from compiled code, which cannot slice by a length beyond 64 bits.
    """
    return error if isinstance(error, CorruptBatch) else CorruptBatch("records end too early")


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """Read the headers whose count stands at `position`; also return where they end. A name that is not UTF-8 has
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
