"""Reads events from the log of `__group_events`, as frames of a stream: the event's id is its offset.

What is in the page cache is read and decoded on the loop, some records at a time; what would have to wait for the
disk, and what is compressed, is read on a thread. A client may have written to the topic, so a record need not be
an event: it is passed over. Knows no streams.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple

from coordinator.history.events import GAP_KEY
from coordinator.http.exchange import Aside
from coordinator.topics.partition import Partition
from protocol.records.batch import Batch, CorruptBatch, walk
from protocol.records.records import Record, iter_payload, payload_of
from storage.files import Chunk
from storage.log.file_range import FileRange
from storage.log.segment_read import WouldBlock

READ_BYTES: Final = 64 << 10
"""Bytes read at a time, but one batch at least: the daemon's own have at most 500 KB."""

INFLATED_BYTES: Final = 4 << 20
"""A client's batch that inflates to more is passed over."""

FRAMES_MAX: Final = 64
"""Events that are handed on at a time: some 60 KB as a rule, and 1 ms of decoding."""

FRAMES_BYTES: Final = 128 << 10
"""Bytes of events after which no more are handed on at a time: one has at most some 100 KB."""

PAUSE_EVERY: Final = 16
"""Records between two pauses."""


class Frame(NamedTuple):
    """One event as it is sent, with its record's key, which is the group's id."""

    offset: int
    key: bytes
    data: bytes


class Frames:
    """The events from `first_offset` to before `next_offset`, in their order."""

    def __init__(self, first_offset: int, frames: list[Frame], next_offset: int) -> None:
        self.first_offset = first_offset
        self.frames = frames
        self.next_offset = next_offset

    @cached_property
    def whole(self) -> bytes:
        """All of them, as they are sent."""
        return b"".join([frame.data for frame in self.frames])

    def since(self, offset: int) -> Frames:
        """Those from an offset on."""
        if offset <= self.first_offset:
            return self
        later = [frame for frame in self.frames if frame.offset >= offset]
        return Frames(offset, later, self.next_offset)

    def of(self, key: bytes | None) -> bytes:
        """Those of one group, with those that stand for dropped ones of any group; all without a key."""
        if key is None:
            return self.whole
        return b"".join([frame.data for frame in self.frames if frame.key in (key, GAP_KEY)])


Reading = Generator[Aside | None, Any, Frames]
"""Yields None now and then, and what is to be done on a thread; is sent the outcome of that."""

Piece = tuple[Batch, bytes]
"""A batch, with its records inflated."""


class EventReader:
    """Reads on from one offset, whatever is appended meanwhile. One `read` at a time."""

    def __init__(self, partition: Partition, offset: int, key: bytes | None = None) -> None:
        """With a `key`, only events of that group are made into frames, and those that stand for dropped ones."""
        self._partition = partition
        self.offset = offset
        self._keys = None if key is None else (key, GAP_KEY)
        self._records: Iterator[Record] = iter(())

    def read(self) -> Reading:
        """Return the next events that are durable, some at a time; no progress at the end.

        Raises OffsetOutOfRange below the log's start, StorageError.
        """
        frames: list[Frame] = []
        size = seen = 0
        first_offset = self.offset
        while len(frames) < FRAMES_MAX and size < FRAMES_BYTES:
            record = next(self._records, None)
            if record is None:
                if not (yield from self._read_more()):
                    break
                continue
            seen += 1
            if seen % PAUSE_EVERY == 0:
                yield None
            if record.offset < self.offset:
                continue
            self.offset = record.offset + 1
            if (frame := self._frame(record)) is not None:
                frames.append(frame)
                size += len(frame.data)
        return Frames(first_offset, frames, self.offset)

    def _frame(self, record: Record) -> Frame | None:
        if self._keys is not None and record.key not in self._keys:
            return None
        return frame_of(record)

    def _read_more(self) -> Generator[Aside | None, Any, bool]:
        """Take the next batches; return False at the end of the log."""
        log = self._partition.log
        if self.offset == log.written_offset:
            return False
        try:
            found = log.find_nowait(self.offset, READ_BYTES)
            data = None if found is None else found.read_nowait(0, found.length)
            pieces = None if data is None else _pieces(data, may_inflate=False)
        except WouldBlock:
            pieces = None
        if pieces is None:
            pieces = yield Aside(self._wait_for_pieces)
        self._records = self._records_of(pieces)
        return bool(pieces)

    def _wait_for_pieces(self) -> list[Piece]:
        """Read on a thread."""
        found: FileRange | None = self._partition.log.find(self.offset, READ_BYTES)
        return [] if found is None else _pieces(found.whole(), may_inflate=True) or []

    def _records_of(self, pieces: list[Piece]) -> Iterator[Record]:
        for batch, payload in pieces:
            with suppress(CorruptBatch):  # It is a client's: what can be read of it was.
                yield from iter_payload(payload, batch)
            self.offset = max(self.offset, batch.last_offset + 1)


def _pieces(data: Chunk, *, may_inflate: bool) -> list[Piece] | None:
    """The batches in `data`; None if one has to be inflated, and may not be here."""
    pieces: list[Piece] = []
    for batch in walk(data):
        if batch.codec and not may_inflate:
            return None
        try:
            payload = payload_of(data, batch, INFLATED_BYTES)
        except CorruptBatch:
            payload = b""  # A client's, that inflates to too much: it is passed over.
        pieces.append((batch, payload))
    return pieces


def frame_of(record: Record) -> Frame | None:
    """Return the event in a record as it is sent; None for a record that is none.

    It is written as one line of JSON, so that no line break of a client's ends the frame early.
    """
    value, key = record.value, record.key
    if key is None or not value:
        return None
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    line = bytes(value)
    if b"\n" in line or b"\r" in line:
        line = json.dumps(fields, separators=(",", ":")).encode()
    kind = b"dropped" if key == GAP_KEY else b"group"
    return Frame(record.offset, bytes(key), b"id: %d\nevent: %b\ndata: %b\n\n" % (record.offset, kind, line))


def gap_frame(first: int, last: int, why: str, event_id: int | None = None) -> bytes:
    """Return the mark of a gap in what is sent; `why` is a word of docs/http.md.

    With an id, a client that comes back asks for what follows on it.
    """
    fields = json.dumps({"from": first, "to": last, "why": why}, separators=(",", ":"))
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: gap\ndata: {fields}\n\n".encode()


def beat_frame(offset: int) -> bytes:
    """Return a sign of life, with the id of the last event that was looked at: no client dispatches it."""
    return b": beat\nid: %d\n\n" % offset
