"""What a client may have stored: the verdicts are those a running Apache Kafka 4.3.1 gave to the same bytes.

Where Muster differs on purpose, the test says so.
"""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.records.batch import BATCH_OVERHEAD, CRC, CRC_POSITION, CorruptBatch, checksum
from protocol.records.compression import compress
from protocol.records.records import Codec, Record, parse_header, payload_of
from protocol.records.validation import (
    MAX_RECORD_ERRORS,
    MIN_INFLATED_BYTES,
    RefusedBatch,
    TimeBounds,
    check_records,
    validate_produced,
)
from protocol.records.varint import VARINTS, encode_varint
from tests.batches import encode_batch

NOW_MS = 1_700_000_000_000
THREE = [Record(b"k%d" % i, b"v%d" % i, NOW_MS + i) for i in range(3)]
PLAIN = bytes(encode_batch(THREE))
ZSTD = bytes(encode_batch(THREE, codec=Codec.ZSTD))
HOUR_MS = 3_600_000
MAX_BATCH_BYTES = 1_048_588

INVALID = ErrorCode.INVALID_RECORD
CORRUPT = ErrorCode.CORRUPT_MESSAGE
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


def verdict(records: bytes | bytearray | None, **options: Any) -> ErrorCode:
    bounds: dict[str, Any] = {"api_version": 12, "max_batch_bytes": MAX_BATCH_BYTES, **options}
    try:
        validate_produced(records, **bounds)
    except RefusedBatch as refused:
        return refused.error_code
    return ErrorCode.NONE


def sealed(batch: bytes | bytearray) -> bytearray:
    """`batch` with the length and the CRC its bytes ask for."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    CRC.pack_into(changed, CRC_POSITION, checksum(changed))
    return changed


def patched(batch: bytes | bytearray, layout: str, position: int, value: int) -> bytearray:
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    return sealed(changed)


def counted(batch: bytes, count: int) -> bytearray:
    return patched(patched(batch, ">i", 57, count), ">i", 23, count - 1)


def unsealed(batch: bytes, layout: str, position: int, value: int) -> bytearray:
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    return changed


def recompressed(change: Callable[[bytes], bytes], codec: Codec) -> bytearray:
    """A batch whose payload was changed before it was compressed."""
    batch = bytes(encode_batch(THREE, codec=codec))
    payload = change(payload_of(batch, parse_header(batch)))
    return sealed(batch[:BATCH_OVERHEAD] + compress(codec, payload))


@pytest.mark.parametrize("codec", Codec)
def test_a_sound_batch_passes(codec: Codec) -> None:
    data = encode_batch(THREE, codec=codec, producer_id=80, producer_epoch=0, base_sequence=0)
    batch = validate_produced(memoryview(data), api_version=7, max_batch_bytes=len(data))
    assert (batch.record_count, batch.codec, batch.end) == (3, codec, len(data))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (None, INVALID),  # Kafka fails inside and never answers.
        (b"", INVALID),
        (bytes(5), INVALID),
        (PLAIN[:14], INVALID),
        (PLAIN[:30], INVALID),
        (PLAIN[:BATCH_OVERHEAD], INVALID),
        (PLAIN[:-1], INVALID),
        (PLAIN + PLAIN, INVALID),
        (unsealed(PLAIN, ">i", 8, 2**31 - 1), INVALID),  # Kafka's sum overflows here, and it answers -1.
        (unsealed(PLAIN, ">i", 8, 48), CORRUPT),
        (unsealed(PLAIN, ">i", 8, 14), CORRUPT),
        (unsealed(PLAIN, ">i", 8, 13), CORRUPT),
        (unsealed(PLAIN, ">i", 8, -1), CORRUPT),
        (unsealed(PLAIN, ">b", 16, 0), INVALID),
        (unsealed(PLAIN, ">b", 16, 1), INVALID),
        (unsealed(PLAIN, ">b", 16, 3), CORRUPT),
        (unsealed(PLAIN, ">b", 16, -1), CORRUPT),
        (PLAIN + b"x" * 70, CORRUPT),
        (unsealed(PLAIN, ">B", len(PLAIN) - 1, 9), CORRUPT),
    ],
)
def test_anything_but_one_whole_batch_is_refused(records: bytes | None, expected: ErrorCode) -> None:
    assert verdict(records) is expected


@pytest.mark.parametrize("tail", [b"xxxxx", PLAIN[:12], PLAIN[:16], PLAIN[:17], PLAIN[:70]])
def test_bytes_of_a_further_batch_that_is_cut_short_are_left_out(tail: bytes) -> None:
    batch = validate_produced(PLAIN + tail, api_version=12, max_batch_bytes=MAX_BATCH_BYTES)
    assert batch.end == len(PLAIN)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (unsealed(PLAIN, ">q", 0, 5), INVALID),
        (patched(PLAIN, ">i", 23, 5), INVALID),
        (patched(PLAIN, ">i", 23, -1), INVALID),
        (counted(PLAIN, 0), INVALID),
        (counted(PLAIN, -1), INVALID),
        (patched(PLAIN, ">h", 21, 0x20), INVALID),
        (patched(PLAIN, ">h", 21, 5), UNKNOWN),
        (patched(PLAIN, ">h", 21, 7), UNKNOWN),
        (patched(PLAIN, ">h", 21, 0x80), ErrorCode.NONE),
        (encode_batch(THREE, producer_id=77, producer_epoch=0, base_sequence=-1), INVALID),
        (encode_batch(THREE, producer_id=78, producer_epoch=-1, base_sequence=0), ErrorCode.NONE),
        (encode_batch(THREE, producer_id=-1, producer_epoch=0, base_sequence=0), ErrorCode.NONE),
        (encode_batch(THREE, producer_id=-5, producer_epoch=0, base_sequence=0), ErrorCode.NONE),
    ],
)
def test_a_header_must_agree_with_itself(records: bytes, expected: ErrorCode) -> None:
    assert verdict(records) is expected


def test_a_batch_over_the_limit_is_too_large_even_with_a_wrong_checksum() -> None:
    assert verdict(PLAIN, max_batch_bytes=len(PLAIN)) is ErrorCode.NONE
    assert verdict(PLAIN, max_batch_bytes=len(PLAIN) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    damaged = unsealed(PLAIN, ">I", 17, 1)
    assert verdict(damaged, max_batch_bytes=len(PLAIN) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_is_taken_from_version_7_on() -> None:
    assert verdict(ZSTD, api_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert verdict(ZSTD, api_version=7) is ErrorCode.NONE


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [2, 4, 10**6, 2**31 - 1])
def test_a_count_of_records_that_lies_is_refused(codec: Codec, count: int) -> None:
    assert verdict(counted(bytes(encode_batch(THREE, codec=codec)), count)) is INVALID


@pytest.mark.parametrize("codec", Codec)
def test_bytes_after_the_last_record_are_refused(codec: Codec) -> None:
    assert verdict(recompressed(lambda payload: payload + b"\0\0\0", codec)) is INVALID


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("length", [b"\x03", b"\x0a", b"\x7e", b"\xff\xff\xff\xff\x0f", b"\xff" * 11])
def test_a_record_length_that_cannot_be_is_refused(codec: Codec, length: bytes) -> None:
    assert verdict(recompressed(lambda payload: length + payload[1:], codec)) is INVALID


@pytest.mark.parametrize("lengths", [[0, 20], [5, 15], [-1, 12]])
def test_record_lengths_that_only_add_up_are_refused(lengths: list[int]) -> None:
    """No record has less than six bytes behind its length."""
    payload = b"".join(encode_varint(length) + bytes(max(length, 0)) for length in lengths)
    batch = sealed(bytes(encode_batch(THREE[:2]))[:BATCH_OVERHEAD] + payload)
    assert verdict(batch) is INVALID


@given(
    st.lists(st.integers(0, 3), max_size=20).map(lambda runs: [size for size in runs for _ in range(50)]),
    st.integers(-2, 2),
    st.integers(-3, 3),
)
def test_lengths_are_followed_as_if_one_by_one(kinds: list[int], more_records: int, more_bytes: int) -> None:
    """Records of one length are looked at together: in runs of any length, also where the last one lies."""
    sizes = [(6, 63, 64, 8192)[kind] for kind in kinds]
    whole = b"".join(encode_varint(size) + bytes(size) for size in sizes)
    payload = whole[:more_bytes] if more_bytes < 0 else whole + bytes(more_bytes)
    count = max(0, len(sizes) + more_records)
    try:
        check_records(b"head" + payload, count, 4)
        crc_matches = True
    except (CorruptBatch, IndexError):
        crc_matches = False
    assert crc_matches == (count == len(sizes) and len(payload) == len(whole))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_payload_that_does_not_inflate_is_refused(codec: Codec) -> None:
    assert verdict(patched(PLAIN, ">h", 21, codec)) is UNKNOWN
    assert verdict(sealed(encode_batch(THREE, codec=codec)[:-3])) is UNKNOWN


def test_a_bomb_is_refused_within_its_bound() -> None:
    """Kafka inflates it, and then finds it invalid: half a gigabyte was tried."""
    size = 15_000_000
    body = b"\0\0\0\x02k" + VARINTS[size] + bytes(size) + b"\0"
    header = encode_batch([Record(b"k", b"v", NOW_MS)], codec=Codec.ZSTD)[:BATCH_OVERHEAD]
    bomb = sealed(header + bytes(cramjam.zstd.compress(VARINTS[len(body)] + body, level=1)))
    assert len(bomb) < MAX_BATCH_BYTES
    assert verdict(bomb, max_inflated_bytes=10**6) is ErrorCode.MESSAGE_TOO_LARGE
    assert verdict(bomb) is ErrorCode.NONE


def zstd_bomb() -> bytes:
    """A gibibyte of zeros: blocks that say of one byte how often it comes, in four bytes each."""
    block = (1 << 1 | (128 << 10) << 3).to_bytes(3, "little") + b"\0"
    end = (1 | 1 << 1 | 1 << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * 8192 + end


def gzip_bomb() -> bytes:
    """A quarter of a gibibyte of zeros."""
    squeeze = zlib.compressobj(6, wbits=31)
    return b"".join([squeeze.compress(bytes(1 << 20)) for _ in range(256)] + [squeeze.flush()])


@pytest.mark.parametrize(("codec", "bomb"), [(Codec.ZSTD, zstd_bomb), (Codec.GZIP, gzip_bomb)])
def test_a_small_batch_that_inflates_to_gigabytes_takes_little_memory(
    codec: Codec, bomb: Callable[[], bytes]
) -> None:
    header = encode_batch([Record(b"k", b"v", NOW_MS)], codec=codec)[:BATCH_OVERHEAD]
    data = sealed(header + bomb())
    assert len(data) < 300_000
    tracemalloc.start()
    try:
        assert verdict(data) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40 << 20
    if codec is Codec.ZSTD:
        assert peak_bytes < MIN_INFLATED_BYTES + (1 << 20)


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_takes_no_record_without_a_key(codec: Codec) -> None:
    keyless = Record(None, b"w" * 100, NOW_MS + 10**7)
    data = bytes(encode_batch([THREE[0], keyless, Record(b"", b"v", NOW_MS), keyless], codec=codec))
    assert verdict(data) is ErrorCode.NONE
    with pytest.raises(RefusedBatch) as caught:
        validate_produced(data, api_version=12, max_batch_bytes=MAX_BATCH_BYTES, keys_required=True)
    assert caught.value.error_code is INVALID
    assert [index for index, why in caught.value.record_errors if why] == [1, 3]


def test_an_answer_names_a_bounded_number_of_records() -> None:
    data = encode_batch([Record(None, b"v", NOW_MS)] * 1000)
    with pytest.raises(RefusedBatch, match="1000 records") as caught:
        validate_produced(data, api_version=12, max_batch_bytes=MAX_BATCH_BYTES, keys_required=True)
    assert len(caught.value.record_errors) == MAX_RECORD_ERRORS


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "expected"),
    [
        (NOW_MS, NOW_MS + HOUR_MS, ErrorCode.NONE),
        (NOW_MS, NOW_MS + HOUR_MS + 1, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS + HOUR_MS + 1, NOW_MS, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS - HOUR_MS, NOW_MS, ErrorCode.NONE),
        (NOW_MS - HOUR_MS - 1, NOW_MS, ErrorCode.INVALID_TIMESTAMP),
        (-1, -1, ErrorCode.NONE),
    ],
)
def test_timestamps_keep_within_bounds(first_ms: int, second_ms: int, expected: ErrorCode) -> None:
    data = encode_batch([Record(b"k", b"v", first_ms), Record(b"k", b"v", second_ms)])
    assert verdict(data, times=TimeBounds(NOW_MS - HOUR_MS, NOW_MS + HOUR_MS)) is expected
