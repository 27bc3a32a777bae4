"""The codecs: what is deflated inflates, bombs are refused within their bound, damage is reported."""

from __future__ import annotations

import os
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import Codec
from protocol.records.compression import (
    XERIAL_BLOCK_BYTES,
    XERIAL_HEADER,
    DoesNotInflate,
    InflatesTooMuch,
    compress,
    decompress,
)

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
WITH_CHECKSUM = [Codec.GZIP, Codec.LZ4]
BOMB_BYTES = 64 * 1024 * 1024
BOUND = 1024 * 1024


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=5000), times=st.integers(1, 60))
@settings(max_examples=30, deadline=None)
def test_what_is_deflated_inflates(codec: Codec, data: bytes, times: int) -> None:
    """Sizes on both sides of a block (32 KiB in snappy's frame, 64 KiB in lz4's)."""
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", COMPRESSING)
def test_output_may_fill_the_bound_and_not_a_byte_more(codec: Codec) -> None:
    data = b"muster " * 30_000
    deflated = compress(codec, data)
    assert decompress(codec, deflated, len(data)) == data
    with pytest.raises(InflatesTooMuch):
        decompress(codec, deflated, len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_before_it_takes_room(codec: Codec) -> None:
    bomb = compress(codec, bytes(BOMB_BYTES))
    assert len(bomb) < BOMB_BYTES // 10
    tracemalloc.start()
    try:
        with pytest.raises(InflatesTooMuch):
            decompress(codec, bomb, BOUND)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * BOUND


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_stream_cut_anywhere_does_not_inflate(codec: Codec) -> None:
    """A cut at the end of a block in snappy's frame looks whole; there the record count shows it."""
    deflated = compress(codec, os.urandom(300) + b"muster" * 100)
    for length in range(1, len(deflated)):
        if codec is Codec.SNAPPY and length == len(XERIAL_HEADER):
            continue
        with pytest.raises(DoesNotInflate):
            decompress(codec, deflated[:length])


@pytest.mark.parametrize("codec", COMPRESSING)
@given(noise=st.binary(min_size=1, max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_does_not_inflate_or_stays_within_the_bound(codec: Codec, noise: bytes) -> None:
    try:
        inflated = decompress(codec, noise, 1000)
    except (DoesNotInflate, InflatesTooMuch):
        return
    assert len(inflated) <= 1000


@pytest.mark.parametrize("codec", WITH_CHECKSUM)
def test_a_wrong_checksum_of_the_framing_is_seen(codec: Codec) -> None:
    deflated = bytearray(compress(codec, b"muster"))
    deflated[-6] ^= 1  # In gzip's CRC-32; in the checksum that ends lz4's only block.
    with pytest.raises(DoesNotInflate):
        decompress(codec, deflated)


def test_snappy_is_written_in_blocks_behind_their_lengths() -> None:
    """The frame Java reads: magic, two versions, then blocks of at most 32 KiB once inflated."""
    data = os.urandom(XERIAL_BLOCK_BYTES + 1)
    deflated = compress(Codec.SNAPPY, data)
    assert deflated.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    (length,) = struct.unpack_from(">i", deflated, 16)
    assert len(cramjam.snappy.decompress_raw(deflated[20 : 20 + length])) == XERIAL_BLOCK_BYTES
    (rest,) = struct.unpack_from(">i", deflated, 20 + length)
    assert 20 + length + 4 + rest == len(deflated)


def test_snappy_is_read_without_its_frame() -> None:
    """librdkafka writes one raw block."""
    data = b"muster " * 1000
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Codec.SNAPPY, raw, len(data)) == data
    with pytest.raises(InflatesTooMuch):
        decompress(Codec.SNAPPY, raw, len(data) - 1)


def test_snappy_streams_may_follow_each_other_under_one_bound() -> None:
    twice = compress(Codec.SNAPPY, b"one" * 100) + compress(Codec.SNAPPY, b"two" * 100)
    assert decompress(Codec.SNAPPY, twice, 600) == b"one" * 100 + b"two" * 100
    with pytest.raises(InflatesTooMuch):
        decompress(Codec.SNAPPY, twice, 599)


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x20"])
def test_a_snappy_block_that_claims_too_much_gets_no_room(claim: bytes) -> None:
    """4 GiB, and 64 MiB within the bound: six bytes can hold neither."""
    block = claim + b"x"
    for data in (block, XERIAL_HEADER + struct.pack(">i", len(block)) + block):
        with pytest.raises(DoesNotInflate, match="says it inflates"):
            decompress(Codec.SNAPPY, data, BOMB_BYTES * 2)


@pytest.mark.parametrize("length", [-1, -(2**31), 3, 2**31 - 1])
def test_a_snappy_block_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(DoesNotInflate):
        decompress(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", length) + b"xx")


def test_lz4_is_written_in_independent_blocks() -> None:
    """Kafka's Java reader refuses a frame without the independence bit (0x20) of its flags."""
    deflated = compress(Codec.LZ4, b"muster " * 30_000)
    assert deflated.startswith(b"\x04\x22\x4d\x18")
    assert deflated[4] & 0xE0 == 0x60, "version 1, independent blocks"
    assert deflated[5] == 0x40, "blocks of 64 KiB"


def test_no_codec_is_no_change() -> None:
    assert decompress(Codec.NONE, memoryview(b"muster")) == compress(Codec.NONE, b"muster") == b"muster"
