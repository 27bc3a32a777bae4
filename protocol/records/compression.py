"""The four compressions of record batches, in the framings Kafka's clients write, with bounded output.

`decompress` never inflates beyond the bound it is given: gzip, lz4 and zstd write into a buffer that grows
in steps up to the bound, and snappy says its size ahead, which is checked before any room is made for it.
So a small bomb costs at most the bound, and only for the length of the call.

Framings: gzip and zstd as they are; lz4 in its frame format with independent blocks, since Kafka's Java
reader refuses linked ones; snappy in the framing of the Java library xerial (a 16-byte header, then
blocks behind their lengths), which Java clients and brokers write, or as one raw block, which some
clients write and Kafka also reads. This module knows no records.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final

import cramjam

from protocol.records.batch import Buffer, Codec, CorruptBatch

MAX_INFLATED_BYTES: Final = 100 * 1024 * 1024
"""The most that one batch may inflate to, in bytes, unless a caller says otherwise. It is the default of
`socket.request.max.bytes`: no more could have come in one request uncompressed."""

GZIP_LEVEL: Final = 6  # Kafka's default, as is the next.
ZSTD_LEVEL: Final = 3
LZ4_LEVEL: Final = 0  # The fast compressor, Kafka's default.
GZIP_BY_DEFAULT: Final = -1  # The value of Kafka's `compression.gzip.level` that means its default,
LZ4_BY_DEFAULT: Final = 9  # and of `compression.lz4.level`; others mean the thorough compressor.

FIRST_ROOM_BYTES: Final = 4096  # The least room made for output, so that small batches fit at once.
FIRST_GUESS: Final = 8  # Room made at first, as a multiple of the input: most batches inflate less.
ROOM_GROWTH: Final = 4
NO_ROOM: Final = "failed to write whole buffer"  # cramjam's words for an output buffer that is full.

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_VERSIONS: Final = Struct(">ii")  # Version, and the oldest version that can read it.
XERIAL_HEADER: Final = XERIAL_MAGIC + XERIAL_VERSIONS.pack(1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
INT32: Final = Struct(">i")
MAX_SNAPPY_RATIO: Final = 22  # A 3-byte copy element yields 64 bytes at most: a block that claims more lies.


class DoesNotInflate(CorruptBatch):
    """A payload that is not of its codec, is cut short, or fails a checksum of its framing."""


class InflatesTooMuch(CorruptBatch):
    """A payload that inflates beyond the bound."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` in the framing that Kafka writes for `codec`, at Kafka's `level`, or its default."""
    return COMPRESS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return what `data` inflates to; `data` as bytes where `codec` is NONE.

    Raises DoesNotInflate, and InflatesTooMuch beyond `max_inflated_bytes`; both are CorruptBatch.
    """
    return DECOMPRESS[codec](data, max_inflated_bytes)


def compress_gzip(data: Buffer, level: int | None) -> bytes:
    has_own = level is not None and level != GZIP_BY_DEFAULT
    return bytes(cramjam.gzip.compress(data, level=level if has_own else GZIP_LEVEL))


def compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def compress_lz4(data: Buffer, level: int | None) -> bytes:
    has_own = level is not None and level != LZ4_BY_DEFAULT
    of_library = level if has_own else LZ4_LEVEL
    compressor = cramjam.lz4.Compressor(level=of_library, content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def compress_snappy(data: Buffer, _level: int | None) -> bytes:
    chunks = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        chunks += (INT32.pack(len(block)), block)
    return b"".join(chunks)


def keep(data: Buffer, max_inflated_bytes: int) -> bytes:
    """Return `data` as bytes. It was not compressed, so `max_inflated_bytes` bounds nothing here."""
    return bytes(data)


def inflater(library: Any) -> Callable[[Buffer, int], bytes]:
    """Return a `decompress` for one of cramjam's codecs that can inflate into a buffer of a given size."""

    def inflate(data: Buffer, max_inflated_bytes: int) -> bytes:
        room = max(FIRST_ROOM_BYTES, FIRST_GUESS * len(data))
        while True:
            room = min(room, max_inflated_bytes)
            out = bytearray()  # Frees the former buffer first: there are never two at once.
            out = bytearray(room)
            try:
                size: int = library.decompress_into(data, out)
            except cramjam.DecompressionError as error:
                if NO_ROOM not in str(error):
                    raise DoesNotInflate(f"payload does not inflate: {error}") from None
            else:
                return bytes(memoryview(out)[:size])
            if room == max_inflated_bytes:
                raise InflatesTooMuch(f"{len(data)} bytes inflate to more than {max_inflated_bytes}")
            room *= ROOM_GROWTH

    return inflate


def decompress_snappy(data: Buffer, max_inflated_bytes: int) -> bytes:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return snappy_block(data, max_inflated_bytes)
    try:
        return b"".join(xerial_blocks(memoryview(data), max_inflated_bytes))
    except StructError:
        raise DoesNotInflate("snappy frame is cut short") from None


def xerial_blocks(data: memoryview, room: int) -> list[bytes]:
    """Return the inflated blocks of one or several xerial streams that follow each other."""
    blocks: list[bytes] = []
    position = 0
    while position < len(data):
        if bytes(data[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            position += len(XERIAL_MAGIC)
            XERIAL_VERSIONS.unpack_from(data, position)
            position += XERIAL_VERSIONS.size
            continue
        (length,) = INT32.unpack_from(data, position)
        position += INT32.size
        if not 0 <= length <= len(data) - position:
            raise DoesNotInflate(f"snappy block of {length} bytes, {len(data) - position} left")
        blocks.append(snappy_block(data[position : position + length], room))
        position += length
        room -= len(blocks[-1])
    return blocks


def snappy_block(block: Buffer, room: int) -> bytes:
    """Inflate one raw snappy block; the size it claims is checked before memory is taken for it."""
    try:
        claimed: int = cramjam.snappy.decompress_raw_len(block)
        if claimed > MAX_SNAPPY_RATIO * len(block):
            raise DoesNotInflate(f"snappy block of {len(block)} bytes says it inflates to {claimed}")
        if claimed > room:
            raise InflatesTooMuch(f"snappy block inflates to {claimed} bytes where {room} may come")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DoesNotInflate(f"payload does not inflate: {error}") from None


COMPRESS: Final[dict[Codec, Callable[[Buffer, int | None], bytes]]] = {
    Codec.NONE: lambda data, _level: bytes(data),
    Codec.GZIP: compress_gzip,
    Codec.SNAPPY: compress_snappy,
    Codec.LZ4: compress_lz4,
    Codec.ZSTD: compress_zstd,
}
DECOMPRESS: Final[dict[Codec, Callable[[Buffer, int], bytes]]] = {
    Codec.NONE: keep,
    Codec.GZIP: inflater(cramjam.gzip),
    Codec.SNAPPY: decompress_snappy,
    Codec.LZ4: inflater(cramjam.lz4),
    Codec.ZSTD: inflater(cramjam.zstd),
}
