"""Batches and records of our own writing: what goes in comes out, and what is damaged is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.records.batch import CRC, CRC_POSITION, NO_SEQUENCE, checksum
from protocol.records.records import (
    BATCH_OVERHEAD,
    Codec,
    CorruptBatch,
    Record,
    UnsupportedMagic,
    check_crc,
    iter_records,
    parse_header,
    read_batch,
    read_records,
    set_base_offset,
    set_max_timestamp,
    size_upper_bound,
    walk,
)
from protocol.records.varint import encode_varint, read_varint
from tests.batches import encode_batch

NOW_MS = 1_700_000_000_000
THREE = [Record(b"k%d" % i, b"v%d" % i, NOW_MS + i) for i in range(3)]

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
contents = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    key=contents,
    value=contents,
    timestamp_ms=st.integers(-1, 2**62),
    headers=st.lists(st.tuples(names, contents), max_size=3).map(tuple),
)


def patched(batch: bytes | bytearray, layout: str, position: int, value: int) -> bytearray:
    """`batch` with one field changed and a CRC that is right again."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    CRC.pack_into(changed, CRC_POSITION, checksum(changed))
    return changed


@given(st.lists(records, min_size=1, max_size=5), st.sampled_from(Codec), st.integers(0, 2**62))
@settings(max_examples=200, deadline=None)
def test_records_come_back_as_written(written: list[Record], codec: Codec, base_offset: int) -> None:
    """With every codec, offsets count up from the base, and the header has the range."""
    data = encode_batch(written, base_offset=base_offset, codec=codec)
    batch = read_batch(data, 0)
    assert batch is not None
    assert batch.codec is codec
    assert (batch.size_bytes, batch.record_count) == (len(data), len(written))
    assert (batch.base_offset, batch.last_offset) == (base_offset, base_offset + len(written) - 1)
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in written)
    for delta, record in enumerate(written):
        record.offset = base_offset + delta
    assert read_records(data, batch) == written


def test_every_header_field_comes_back() -> None:
    data = encode_batch(
        THREE,
        base_offset=7,
        codec=Codec.LZ4,
        leader_epoch=3,
        producer_id=2**40,
        producer_epoch=9,
        base_sequence=2**31 - 2,
        transactional=True,
        control=True,
        log_append_time=True,
    )
    batch = parse_header(data)
    assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch) == (3, 2**40, 9)
    assert (batch.base_sequence, batch.last_sequence) == (2**31 - 2, 0), "sequences wrap"
    assert batch.is_transactional
    assert batch.is_control
    assert batch.is_log_append_time
    assert not batch.has_delete_horizon
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (NOW_MS, NOW_MS + 2)


def test_a_batch_without_sequence_has_no_last_sequence() -> None:
    batch = parse_header(encode_batch(THREE))
    assert batch.last_sequence == NO_SEQUENCE
    assert not any((batch.is_transactional, batch.is_control, batch.is_log_append_time))


def test_log_append_time_stands_for_every_record() -> None:
    data = encode_batch(THREE, log_append_time=True)
    assert {record.timestamp_ms for record in read_records(data, parse_header(data))} == {NOW_MS + 2}


def test_a_broker_can_stamp_its_own_time_and_take_it_back() -> None:
    data = encode_batch(THREE)
    before = bytes(data)
    set_max_timestamp(data, NOW_MS + 999, log_append_time=True)
    batch = read_batch(data, 0)
    assert batch is not None, "the CRC is right again"
    assert [record.timestamp_ms for record in read_records(data, batch)] == [NOW_MS + 999] * 3
    set_max_timestamp(data, NOW_MS + 2, log_append_time=False)
    assert data == before


def test_a_batch_of_no_records_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])


@given(st.lists(records, min_size=1, max_size=5))
@settings(deadline=None)
def test_the_size_bound_holds(written: list[Record]) -> None:
    assert len(encode_batch(written)) <= size_upper_bound(written)


def test_the_place_in_a_log_lies_outside_the_checksum() -> None:
    data = encode_batch(THREE)
    after_epoch = bytes(data[16:])
    set_base_offset(data, 2**40, 5)
    batch = read_batch(data, 0)
    assert batch is not None
    assert (batch.base_offset, batch.leader_epoch, batch.size_bytes) == (2**40, 5, len(data))
    assert data[16:] == after_epoch


def test_a_header_is_read_where_it_stands() -> None:
    data = b"junk" + encode_batch(THREE, base_offset=4)
    batch = read_batch(memoryview(data), 4, min_offset=4)
    assert batch is not None
    assert (batch.position, batch.end) == (4, len(data))
    assert [record.offset for record in iter_records(data, batch)] == [4, 5, 6]


def test_offsets_that_go_back_are_not_read() -> None:
    data = encode_batch(THREE, base_offset=4)
    assert read_batch(data, 0, min_offset=4) is not None
    assert read_batch(data, 0, min_offset=5) is None


def test_no_prefix_of_a_batch_is_a_batch() -> None:
    data = bytes(encode_batch(THREE))
    for length in range(len(data)):
        assert read_batch(data[:length], 0) is None


def test_every_flipped_bit_under_the_checksum_is_seen() -> None:
    """The checksum leaves out base offset and leader epoch; a wrong length is seen by its effect."""
    data = encode_batch(THREE)
    for position in [*range(8, 12), *range(16, len(data))]:
        for bit in range(8):
            data[position] ^= 1 << bit
            assert read_batch(data, 0) is None, f"byte {position}, bit {bit}"
            data[position] ^= 1 << bit
    assert read_batch(data, 0) is not None


@pytest.mark.parametrize("noise", [bytes(200), b"\xff" * 200, bytes(range(200))])
def test_noise_is_no_batch(noise: bytes) -> None:
    assert read_batch(noise, 0) is None


@pytest.mark.parametrize(("position", "name"), [(23, "last offset delta"), (57, "record count")])
def test_a_negative_count_is_not_sound(position: int, name: str) -> None:
    assert read_batch(patched(encode_batch(THREE), ">i", position, -1), 0) is None, name


def test_a_header_of_another_format_is_recognized() -> None:
    data = encode_batch(THREE)
    data[16] = 1
    with pytest.raises(UnsupportedMagic):
        parse_header(data)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, BATCH_OVERHEAD - 12 - 1])
def test_a_length_that_cannot_be_is_corrupt(length: int) -> None:
    data = encode_batch(THREE)
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatch, match="says it has"):
        parse_header(data)


def test_an_unknown_codec_is_corrupt() -> None:
    batch = parse_header(patched(encode_batch(THREE), ">h", 21, 5))
    with pytest.raises(CorruptBatch, match="unknown compression"):
        _ = batch.codec


def test_a_walk_yields_whole_batches_and_stops_at_a_cut_one() -> None:
    first, second = encode_batch(THREE), encode_batch(THREE, base_offset=3, codec=Codec.GZIP)
    whole = bytes(first + second)
    for cut in range(len(first), len(whole) + 1):
        found = list(walk(whole[:cut]))
        assert [batch.base_offset for batch in found] == ([0, 3] if cut == len(whole) else [0])
    assert all(check_crc(whole, batch) for batch in walk(whole))


def test_a_walk_refuses_what_cannot_begin_a_batch() -> None:
    with pytest.raises(CorruptBatch):
        list(walk(encode_batch(THREE) + bytes(BATCH_OVERHEAD)))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("change", [-1, 1, 2**31 - 4])
def test_a_record_count_that_lies_is_corrupt(codec: Codec, change: int) -> None:
    data = patched(encode_batch(THREE, codec=codec), ">i", 57, 3 + change)
    with pytest.raises(CorruptBatch):
        read_records(data, parse_header(data))


def test_records_of_a_batch_that_is_cut_short_are_not_read() -> None:
    data = encode_batch(THREE)
    with pytest.raises(CorruptBatch, match="cut short"):
        read_records(data[:-1], parse_header(data))


@given(st.binary(min_size=7, max_size=60), st.integers(1, 3))
@example(bytes(4) + b"\x80" * 9 + b"\x02", 1)  # A key of 2 ** 63 bytes,
@example(bytes(5) + b"\x80" * 9 + b"\x02", 1)  # a value,
@example(bytes(4) + b"\xfe" + b"\xff" * 8 + b"\x01", 1)  # and a key that ends beyond 64 bits.
@settings(max_examples=500, deadline=None)
def test_a_garbage_payload_is_corrupt_or_records(payload: bytes, count: int) -> None:
    """Whatever stands behind a header: CorruptBatch, or records that account for every byte. Nothing else."""
    data = bytearray(encode_batch(THREE)[:BATCH_OVERHEAD] + payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    data = patched(data, ">i", 57, count)
    try:
        found = read_records(data, parse_header(data))
    except CorruptBatch:
        return
    assert len(found) == count
    assert sum(len(record.key or b"") + len(record.value or b"") for record in found) < len(payload)


@pytest.mark.parametrize("position", range(BATCH_OVERHEAD, BATCH_OVERHEAD + 11))
@pytest.mark.parametrize("byte", [0x01, 0x03, 0x7E, 0x80, 0xFF])
def test_a_record_malformed_inside_never_reads_beyond_itself(position: int, byte: int) -> None:
    """Lengths that lie stay within the payload: the neighbours are whole or the batch is corrupt."""
    data = encode_batch(THREE)
    data[position] = byte
    try:
        found = read_records(data, parse_header(data))
    except CorruptBatch:
        return
    assert [(record.key, record.value) for record in found[1:]] == [(b"k1", b"v1"), (b"k2", b"v2")]


def single(payload: bytes) -> bytearray:
    """A batch that says it holds one record, with this payload."""
    return patched(
        encode_batch(THREE[:1])[:BATCH_OVERHEAD] + payload, ">i", 8, BATCH_OVERHEAD - 12 + len(payload)
    )


@pytest.mark.parametrize("length", [0x02, 0x12, 0x16, 0x03, 0x7E])
def test_a_record_length_that_differs_from_its_content_is_corrupt(length: int) -> None:
    data = single(b"\x14\0\0\0\x04k0\x04v0\0")
    assert len(read_records(data, parse_header(data))) == 1
    data[BATCH_OVERHEAD] = length
    with pytest.raises(CorruptBatch):
        read_records(data, parse_header(data))


def test_a_record_that_runs_over_the_end_is_never_handed_out() -> None:
    """The record's length and its last header agree, on more bytes than there are."""
    data = single(b"\x7e\0\0\0\x01\x01\x02\x02h\x6cxxxxxxxx")
    with pytest.raises(CorruptBatch, match="left"):
        next(iter_records(data, parse_header(data)))


@pytest.mark.parametrize("headers", [b"\x01", b"\x02\x01\x00", b"\x7e\x02h\x00"])
def test_headers_that_cannot_be_are_corrupt(headers: bytes) -> None:
    """A negative count, a null name, more headers than bytes."""
    body = b"\0\0\0\x01\x01" + headers
    data = single(encode_varint(len(body)) + body)
    with pytest.raises(CorruptBatch, match="header"):
        read_records(data, parse_header(data))


def test_a_negative_record_count_is_corrupt_even_without_a_payload() -> None:
    data = patched(single(b""), ">i", 57, -1)
    with pytest.raises(CorruptBatch, match="records in"):
        read_records(data, parse_header(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back_as_written(number: int) -> None:
    encoded = encode_varint(number)
    assert read_varint(b"x" + encoded + b"\xff", 1) == (number, 1 + len(encoded))
    assert len(encoded) <= 10


def test_a_varint_without_end_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="64 bits"):
        read_varint(b"\x80" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\x80" * 9, 0)
