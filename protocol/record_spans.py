"""Where the records of a batch lie in its payload, and as much of each as compaction asks: key, null value, time.

The cleaner reads every record of a log and copies most of them as they are, so nothing is built here that it
would only take apart again: values and headers are passed over, and a record that stays is a slice. Written
again relative to another base timestamp, a record changes its first two numbers and its length.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from protocol.record_batch import CorruptBatch
from protocol.varint import VARINTS, read_varint

NO_ATTRIBUTES: Final = b"\0"  # Records have had none so far.

Span: TypeAlias = tuple[int, bytes | None, bool, int, int, int, int]
"""One record in `data[start:end]`: offset delta, key, whether its value is null, timestamp delta in ms, `start`
(where its length stands), `body` (where its offset delta stands), `end`. A plain tuple, since there is one for
each record of a log."""


def record_spans(data: bytes, count: int) -> list[Span]:
    """The `count` records that fill `data`. Raises CorruptBatch where they do not."""
    spans: list[Span] = []
    position, limit = 0, len(data)
    try:
        for _ in range(count):
            start = position
            size, position = read_varint(data, position)
            end = position + size
            if size < 0 or end > limit:
                raise CorruptBatch(f"record of {size} bytes, {limit - position} left")
            # A number of one byte is read here, without the call: most are.
            delta_ms = data[position + 1]
            if delta_ms < 0x80:
                delta_ms, body = (delta_ms >> 1) ^ -(delta_ms & 1), position + 2
            else:
                delta_ms, body = read_varint(data, position + 1)
            delta = data[body]
            if delta < 0x80:
                delta, position = (delta >> 1) ^ -(delta & 1), body + 1
            else:
                delta, position = read_varint(data, body)
            key_size, position = read_varint(data, position)
            key = None
            if key_size >= 0:
                key, position = data[position : position + key_size], position + key_size
            value_size, position = read_varint(data, position)
            if position + max(value_size, 0) >= end:  # The number of headers follows, at least.
                raise CorruptBatch(f"record at byte {start} holds more than its length says")
            spans.append((delta, key, value_size < 0, delta_ms, start, body, end))
            position = end
    except IndexError:
        raise CorruptBatch("records end too early") from None
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes after the last record")
    return spans


def moved_in_time(data: bytes, span: Span, timestamp_delta_ms: int) -> bytes:
    """The record at `span`, length included, with another timestamp delta."""
    *_, body, end = span
    delta = VARINTS[timestamp_delta_ms]
    size = len(NO_ATTRIBUTES) + len(delta) + end - body
    return b"".join((VARINTS[size], NO_ATTRIBUTES, delta, data[body:end]))
