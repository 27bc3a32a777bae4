"""A batch of some kilobytes that inflates to a gigabyte, made without making the gigabyte."""

from __future__ import annotations

from functools import cache

from protocol.records.batch import NO_TIMESTAMP, Codec, parse_header
from protocol.records.compression import MAX_INFLATED_BYTES, compress
from protocol.records.records import Record, encode_batch
from storage.cleaning.batch_filter import rebuilt

PIECE_BYTES = 64 << 20
PIECES = 16
BOMB_BYTES = PIECES * PIECE_BYTES
assert BOMB_BYTES > 10 * MAX_INFLATED_BYTES


@cache
def bomb(key: bytes = b"k") -> bytes:
    """One batch, whose header and checksum are right; zstd inflates frames that follow each other as one."""
    plain = parse_header(encode_batch([Record(key, b"v", 0)]))
    payload = compress(Codec.ZSTD, bytes(PIECE_BYTES)) * PIECES
    return rebuilt(plain, payload, 1, Codec.ZSTD, NO_TIMESTAMP, NO_TIMESTAMP)
