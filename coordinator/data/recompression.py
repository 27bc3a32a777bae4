"""Compresses batches by the codec of their topic (`compression.type`), if their producer used another one.

Only the payload and the codec in the attributes change: offsets, timestamps, producer, epoch, sequence and flags
stay. It takes long enough to be done on a thread.
"""

from __future__ import annotations

from coordinator.topics.refusal import Refused
from coordinator.topics.topic_config import Compression
from protocol.errors import ErrorCode
from protocol.records.batch import (
    ATTRIBUTES,
    BATCH_OVERHEAD,
    CHECKED_FROM,
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    LENGTH,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    Batch,
    Buffer,
    checksum,
)
from protocol.records.compression import compress
from protocol.records.records import payload_of
from protocol.records.validation import inflation_bound


def recompressed(records: Buffer, batch: Batch, compression: Compression, max_bytes: int) -> bytearray:
    """Return the checked `batch` in `records`, compressed by another codec. Raises Refused: MESSAGE_TOO_LARGE."""
    payload = payload_of(records, batch, inflation_bound(batch))
    packed = compress(compression.codec, payload, compression.level)
    size_bytes = BATCH_OVERHEAD + len(packed)
    if size_bytes > max_bytes:
        codec = compression.codec.name.lower()
        text = f"the batch has {size_bytes} bytes in the topic's codec {codec}, and at most {max_bytes} are taken"
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, text)
    made = bytearray(memoryview(records)[batch.position : batch.position + BATCH_OVERHEAD])
    made += packed
    LENGTH.pack_into(made, LENGTH_POSITION, size_bytes - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(made, CHECKED_FROM, batch.attributes & ~CODEC_MASK | compression.codec)
    CRC.pack_into(made, CRC_POSITION, checksum(made))
    return made
