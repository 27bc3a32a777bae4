"""Where the records of a batch lie in its payload, and as much of each as compaction asks: key, null value, time.

The cleaner reads every record of a log and copies most of them as they are, so nothing is built here that it
would only take apart again: values and headers are passed over, and a record that stays is a slice. Written
again relative to another base timestamp, a record changes its first two numbers and its length.
"""

from __future__ import annotations

from typing import TypeAlias

from protocol.records.batch import CorruptBatch
from protocol.records.records import cut_short
from protocol.records.run import NO_ATTRIBUTES
from protocol.records.varint import ONE_BYTE_VARINTS, VARINTS, read_varint

Span: TypeAlias = tuple[int, bytes | None, bool, int, int, int, int]
"""One record in `data[start:end]`: offset delta, key, whether its value is null, timestamp delta in ms, `start`
(where its length stands), `body` (where its offset delta stands), `end`. A plain tuple, since there is one for
each record of a log."""


def record_spans(data: bytes, count: int) -> list[Span]:
    """Return the spans of the `count` records that fill `data`. Raises CorruptBatch if they do not fill it."""
    spans: list[Span] = []
    append = spans.append
    position, limit, small = 0, len(data), ONE_BYTE_VARINTS
    try:
        for _ in range(count):
            start = position
            # Numbers of one byte, and the length of two, are read here, without the call: most are of these.
            byte = data[position]
            if byte < 0x80:
                size, position = small[byte], position + 1
            elif (second := data[position + 1]) < 0x80:
                rest = byte & 0x7F | second << 7
                size, position = (rest >> 1) ^ -(rest & 1), position + 2
            else:
                size, position = read_varint(data, position)
            end = position + size
            if size < 0 or end > limit:
                raise CorruptBatch(f"record of {size} bytes, {limit - position} left")
            byte = data[position + 1]
            delta_ms, body = (small[byte], position + 2) if byte < 0x80 else read_varint(data, position + 1)
            byte = data[body]
            delta, position = (small[byte], body + 1) if byte < 0x80 else read_varint(data, body)
            byte = data[position]
            key_size, position = (small[byte], position + 1) if byte < 0x80 else read_varint(data, position)
            key = None
            if key_size >= 0:
                key, position = data[position : position + key_size], position + key_size
            byte = data[position]
            value_size, position = (small[byte], position + 1) if byte < 0x80 else read_varint(data, position)
            if (position + value_size if value_size > 0 else position) >= end:  # Headers' number follows.
                raise CorruptBatch(f"record at byte {start} holds more than its length says")
            append((delta, key, value_size < 0, delta_ms, start, body, end))
            position = end
    except (IndexError, ValueError) as error:
        raise cut_short(error) from None
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes after the last record")
    return spans


def moved_in_time(data: bytes, span: Span, timestamp_delta_ms: int) -> bytes:
    """Return the bytes of the record at `span`, length included, with another timestamp delta."""
    *_, body, end = span
    delta = VARINTS[timestamp_delta_ms]
    size = len(NO_ATTRIBUTES) + len(delta) + end - body
    return b"".join((VARINTS[size], NO_ATTRIBUTES, delta, data[body:end]))
