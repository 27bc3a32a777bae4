"""What a broker checks of the record set of one partition in a Produce request, before it is stored.

The checks, their order and their errors are those a running Apache Kafka 4.3.1 was seen to make for magic 2
(Produce v3 and later). A batch's records are stored as they came, so what is checked here is what
consumers can rely on.

Where this is shallower than Kafka, and why. Kafka parses every record. Here the lengths in front of the
records are walked: they must fill the payload exactly, as many times as the header says. So no batch
holds more or fewer records than the offsets it is given, at a third of the cost; a record that is malformed
inside, behind a right CRC, is found by its reader only. Compressed batches are inflated for that walk, within
a bound, and dropped again. Keys are looked at only where a compacted topic needs them. Timestamps
are taken from the header, which is also what the time index goes by; Kafka reads them from the records
and mends a header that lies.

Not checked here, as it takes more than the batch: transactional rights, sequences, epochs. This module
knows no topics and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch import (
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    Buffer,
    Codec,
    CorruptBatch,
    checked_part,
    crc_matches,
    parse_header,
)
from protocol.records.compression import MAX_INFLATED_BYTES, DoesNotInflate, InflatesTooMuch, decompress
from protocol.records.records import MIN_RECORD_BYTES, iter_records
from protocol.records.varint import read_varint

ZSTD_SINCE: Final = 7  # The Produce version that brought zstd (KIP-110).
MIN_LENGTH: Final = 14  # What the smallest batch of any format counts after its length; less is no batch.
MAGIC_POSITION: Final = 16
LENGTH: Final = Struct(">8xi")
RECORDS_POSITION: Final = BATCH_OVERHEAD - CHECKED_FROM  # In what the CRC covers.
RUN_RECORDS: Final = 64  # Looked at together: so long all offset deltas have one byte in the first run.
MIN_INFLATED_BYTES: Final = 16 << 20
MAX_INFLATION: Final = 100
"""A produced batch may inflate to so many times its size, or to so many bytes if that is more, and never beyond
MAX_INFLATED_BYTES: so what a small bomb costs is small. Producers bound their batches before they compress them,
by a megabyte as a rule."""

MAX_RECORD_ERRORS: Final = 100
"""Faulty records named in one answer: enough to find the fault; an answer must not outgrow its request."""


class TimeBounds(NamedTuple):
    """The earliest and the latest timestamp that a record may have, in ms since 1970."""

    earliest_ms: int
    latest_ms: int

    def has(self, timestamp_ms: int) -> bool:
        """Whether the timestamp is within the bounds; -1 stands for none and always is."""
        return timestamp_ms == -1 or self.earliest_ms <= timestamp_ms <= self.latest_ms


ANY_TIME: Final = TimeBounds(-(2**63), 2**63 - 1)


class RefusedBatch(Exception):
    """A record set that may not be stored. `record_errors` are (index in the batch, why), for Produce v8+."""

    def __init__(
        self, error_code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors


class NotOneBatch(RefusedBatch):
    """A record set that is not one batch of magic 2: Kafka finds that before it looks at the partition's log."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


def validate_produced(
    records: Buffer | None,
    *,
    api_version: int,
    max_batch_bytes: int,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
    keys_required: bool = False,
    times: TimeBounds = ANY_TIME,
) -> Batch:
    """Return the one batch that `records` hold, if a client may write it: sound from header to last record.

    Store the bytes from `Batch.position` to `Batch.end` and no more: bytes of a further batch that is cut
    short are let pass, as Kafka does. `keys_required` is for compacted topics; `times` bound
    timestamps other than -1 (`message.timestamp.before/after.max.ms`).

    Raises RefusedBatch: INVALID_RECORD (not exactly one whole batch of magic 2, a first offset other than 0,
    counts that disagree, control bit, producer id without sequence, missing keys), CORRUPT_MESSAGE (no batch
    at all, CRC), MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE (zstd before v7), INVALID_TIMESTAMP,
    UNKNOWN_SERVER_ERROR (unknown codec, payload that does not inflate: so does Kafka).
    """
    batch = only_batch(memoryview(records or b""), api_version)
    if batch.base_offset != 0:
        raise invalid_record(f"the base offset is {batch.base_offset} where a producer sends 0")
    if batch.size_bytes > max_batch_bytes:
        text = f"the batch has {batch.size_bytes} bytes, and at most {max_batch_bytes} are taken"
        raise RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, text)
    part = checked_part(records or b"", batch)
    check_header(part, batch)
    check_payload(part, batch, min(max_inflated_bytes, inflation_bound(batch)), keys_required)
    check_timestamps(records or b"", batch, times)
    return batch


def inflation_bound(batch: Batch) -> int:
    """The most that the payload of a produced batch may inflate to, in bytes."""
    return min(MAX_INFLATED_BYTES, max(MIN_INFLATED_BYTES, MAX_INFLATION * batch.size_bytes))


def invalid_record(text: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, text)


def corrupt_message(text: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, text)


def only_batch(records: memoryview, api_version: int) -> Batch:
    """Return the header of the only batch in `records`; RefusedBatch unless it is one, whole, and of magic 2."""
    size = whole_batch_bytes(records, 0)
    if size is None:
        raise NotOneBatch("there is no whole batch for this partition")
    if records[MAGIC_POSITION] != MAGIC:
        raise NotOneBatch(f"the batch has magic {records[MAGIC_POSITION]}, and Produce takes 2 only")
    if size < BATCH_OVERHEAD:
        raise corrupt_message(f"the batch has {size} bytes, less than its header takes")
    batch = parse_header(records)
    if api_version < ZSTD_SINCE and batch.attributes & CODEC_MASK == Codec.ZSTD:
        text = f"zstd needs Produce version {ZSTD_SINCE} or newer, not {api_version}"
        raise RefusedBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if whole_batch_bytes(records, size) is not None:
        raise NotOneBatch("there is more than one batch for this partition")
    return batch


def whole_batch_bytes(records: memoryview, position: int) -> int | None:
    """Return the size of the batch (of any known format) at `position`; None where it is cut short or absent."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    (length,) = LENGTH.unpack_from(records, position)
    if length < MIN_LENGTH:
        raise corrupt_message(f"a batch says it has {length} bytes")
    if left <= MAGIC_POSITION:
        return None
    magic = records[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise corrupt_message(f"a batch has magic {magic}, which no format has")
    size = LOG_OVERHEAD + int(length)
    return size if size <= left else None


def check_header(part: bytes, batch: Batch) -> None:
    """Refuse a batch whose checksum is wrong or whose header contradicts itself or is a broker's to write."""
    if not crc_matches(part, batch):
        raise corrupt_message(f"the CRC-32C {batch.crc:#010x} of the batch is wrong")
    if batch.attributes & CODEC_MASK > Codec.ZSTD:
        text = f"unknown compression type {batch.attributes & CODEC_MASK}"
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    if batch.record_count <= 0 or batch.last_offset_delta != batch.record_count - 1:
        raise invalid_record(
            f"{batch.record_count} records with a last offset delta of {batch.last_offset_delta}"
        )
    if batch.is_control:
        raise invalid_record("control records are written by brokers only")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise invalid_record(f"producer id {batch.producer_id} without a sequence number")


def check_payload(part: bytes, batch: Batch, max_inflated_bytes: int, keys_required: bool) -> None:
    """Refuse a payload that does not inflate, or is anything but as many records as the header says."""
    count = batch.record_count
    try:
        payload, start = part, RECORDS_POSITION
        if batch.attributes & CODEC_MASK:
            payload, start = decompress(batch.codec, memoryview(part)[start:], max_inflated_bytes), 0
        check_records(payload, count, start)
        keyless = list(keyless_records(payload, count, start)) if keys_required else []
    except InflatesTooMuch as error:
        raise RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except DoesNotInflate as error:
        raise RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    except IndexError:
        raise invalid_record(
            f"malformed records: fewer than the {batch.record_count} of the header"
        ) from None
    except CorruptBatch as error:
        raise invalid_record(f"malformed records: {error}") from None
    if keyless:
        why = "a compacted topic takes no record without a key"
        record_errors = tuple((index, why) for index in keyless[:MAX_RECORD_ERRORS])
        text = f"{len(keyless)} records have no key, which a compacted topic needs"
        raise RefusedBatch(ErrorCode.INVALID_RECORD, text, record_errors)


def check_records(payload: bytes, count: int, position: int = 0) -> None:
    """Raise unless the lengths of `count` records lead from `position` exactly to the end of `payload`.

    CorruptBatch, or IndexError where they lead beyond.
    """
    limit = len(payload)
    if count * MIN_RECORD_BYTES > limit - position:
        raise CorruptBatch(f"{count} records in {limit - position} bytes")
    for index in range(0, count, RUN_RECORDS):
        some = min(RUN_RECORDS, count - index)
        position = end_of_alike(payload, some, position) or end_of_some(payload, some, position)
    if position != limit:
        raise CorruptBatch(f"{count} records end at byte {position} of {limit}")


def end_of_alike(payload: bytes, count: int, position: int) -> int:
    """Return where the next `count` records end if all have the length of the first; else 0.

    One comparison for each byte of the length, whatever the count: a tenth of what `end_of_some` takes.
    """
    size, body = read_varint(payload, position)
    stride = body - position + size
    end = position + count * stride
    if size < MIN_RECORD_BYTES - 1 or end > len(payload):
        return 0
    for place in range(position, body):
        if payload[place:end:stride] != payload[place : place + 1] * count:
            return 0
    return end


def end_of_some(payload: bytes, count: int, position: int) -> int:
    """Return where the next `count` records end. Lengths of one or two bytes are read here, without a call."""
    for _ in range(count):
        low = payload[position]
        if low < 0x80:
            size, position = low >> 1, position + 1
        elif (high := payload[position + 1]) < 0x80:
            size, position = (high << 6) | (low & 0x7F) >> 1, position + 2
        else:
            size, position = read_varint(payload, position)
            low = size < 0
        if low & 1 or size < MIN_RECORD_BYTES - 1:
            raise CorruptBatch(f"a record before byte {position} has an impossible length")
        position += size
    return position


def keyless_records(payload: bytes, count: int, position: int) -> Iterator[int]:
    """Yield the indexes of records with a null key, in a payload that passed `check_records`."""
    for index in range(count):
        size, position = read_varint(payload, position)
        _, key_position = read_varint(payload, position + 1)  # The timestamp delta, behind the attributes.
        _, key_position = read_varint(payload, key_position)  # The offset delta.
        key_size, _ = read_varint(payload, key_position)
        if key_size < 0:
            yield index
        position += size


def check_timestamps(records: Buffer, batch: Batch, times: TimeBounds) -> None:
    """Refuse a batch whose first or latest timestamp is out of range; -1 means none and always passes.

    The records are read only for such a batch, to name those that are out of range.
    """
    for timestamp_ms in (batch.base_timestamp_ms, batch.max_timestamp_ms):
        if not times.has(timestamp_ms):
            text = f"timestamp {timestamp_ms} is not within [{times.earliest_ms}, {times.latest_ms}]"
            wrong = untimely_records(records, batch, times)
            raise RefusedBatch(ErrorCode.INVALID_TIMESTAMP, text, tuple((index, text) for index in wrong))


def untimely_records(records: Buffer, batch: Batch, times: TimeBounds) -> list[int]:
    """Return the indexes of the first MAX_RECORD_ERRORS records whose timestamp is out of range."""
    try:
        timed = enumerate(iter_records(records, batch))
        wrong = (index for index, record in timed if not times.has(record.timestamp_ms))
        return list(islice(wrong, MAX_RECORD_ERRORS))
    except CorruptBatch as error:
        raise invalid_record(f"malformed records: {error}") from None
