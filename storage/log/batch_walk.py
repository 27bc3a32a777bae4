"""Walks the batches of a segment file through a window of bounded size.

Files are read in windows, not mapped: a page that a failing disk cannot deliver is then an error to report,
not a signal that ends the process. A window grows for one batch that is larger than it, up to the largest
batch that any request could have carried, so a length field that lies allocates no more than that.
`protocol.records.batch` defines what a batch is; the caller decides what an incomplete batch means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from protocol.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    CorruptBatch,
    parse_header,
    read_batch,
)
from storage.files import Chunk, CorruptSegment, File

WINDOW_BYTES: Final = 1 << 20  # For a walk over whole batches: so large that system calls do not show.
HEADER_WINDOW_BYTES: Final = 4096  # For a search: one index interval, so that one read finds the place.
LARGEST_BATCH_BYTES: Final = 100 << 20  # socket.request.max.bytes: nothing larger came in by a request.

Read: TypeAlias = Callable[[int, int], Chunk]
"""Takes a length and a position in a file; returns the bytes there, fewer only at the end of the file."""


Span: TypeAlias = tuple[int, int, int]
"""A batch's first byte, the byte after its last one, and its last offset."""

# Fields of a batch header: base offset, length, magic, last offset delta.
OFFSETS: Final = Struct(">qi4xb6xi")


class Located(NamedTuple):
    """A batch found at byte `position` of a file. `data` holds only this batch, so `batch.position` is 0 in it."""

    position: int
    batch: Batch
    data: memoryview

    @property
    def end(self) -> int:
        return self.position + self.batch.size_bytes


class Window:
    """Read-ahead over the bytes of a file below `end`, piece by piece; going back reads a piece again."""

    __slots__ = ("_data", "_read", "_size_bytes", "_start", "end")

    def __init__(self, read: Read, end: int, size_bytes: int) -> None:
        self.end = end
        self._read = read
        self._size_bytes = size_bytes
        self._data = memoryview(b"")
        self._start = 0

    def view(self, position: int, length: int) -> memoryview:
        """Return at least `length` bytes from `position` on; fewer only where the file's range ends at `end`."""
        first = position - self._start
        if first < 0 or first + length > len(self._data):
            wanted = min(max(length, self._size_bytes), self.end - position)
            self._data, self._start, first = memoryview(self._read(wanted, position)), position, 0
        return self._data[first:]


def walk_checked(
    file: File, start: int, end: int, *, min_offset: int = 0, window_bytes: int = WINDOW_BYTES
) -> Iterator[Located]:
    """Yield the whole, valid batches from byte `start` on (length, magic, CRC, offsets that do not go back).

    Stops at `end` or before the first invalid batch: compare with the `end` of the last batch yielded.
    """
    window = Window(file.read_at, end, window_bytes)
    position, needed_bytes = start, BATCH_OVERHEAD
    while position < end:
        view = window.view(position, needed_bytes)
        if len(view) < needed_bytes:
            return
        at = 0
        while batch := read_batch(view, at, min_offset):
            if batch.size_bytes > LARGEST_BATCH_BYTES or position + batch.size_bytes > end:
                return
            begin, at = at, batch.end
            batch.position = 0
            yield Located(position, batch, view[begin:at])
            position += batch.size_bytes
            min_offset = batch.last_offset + 1
        needed_bytes = bytes_needed(view[at:], end - position)
        if not needed_bytes:
            return


def bytes_needed(view: memoryview, left_bytes: int) -> int:
    """Return how many bytes the batch at the start of `view` takes, at least a header's; 0 if it is whole there.

    Also 0 if the batch can never be whole: it has to end within `left_bytes`.
    """
    if len(view) < BATCH_OVERHEAD:
        return BATCH_OVERHEAD
    size_bytes = LOG_OVERHEAD + int.from_bytes(view[8:LOG_OVERHEAD], "big", signed=True)
    return size_bytes if len(view) < size_bytes <= min(left_bytes, LARGEST_BATCH_BYTES) else 0


def walk_spans(path: Path, read: Read, start: int, end: int) -> Iterator[Span]:
    """Yield the `Span` of each batch in [start, end): as `walk_headers`, but few header fields are parsed.

    A look-up passes some twenty batches on its way; parsing the whole of each header took most of a read.
    """
    window = Window(read, end, HEADER_WINDOW_BYTES)
    unpack, overhead = OFFSETS.unpack_from, BATCH_OVERHEAD
    position = start
    while position < end:
        view = window.view(position, overhead)
        at, last = 0, len(view) - overhead
        if last < 0:
            raise CorruptSegment(path, position, f"{len(view)} bytes are no batch")
        while at <= last:
            base_offset, length, magic, last_delta = unpack(view, at)
            begin, position = position, position + LOG_OVERHEAD + length
            if magic != MAGIC or not begin + overhead <= position <= end:
                raise CorruptSegment(path, begin, f"no batch, or one that ends beyond {end}")
            yield begin, position, base_offset + last_delta
            at += LOG_OVERHEAD + length


def walk_headers(path: Path, read: Read, start: int, end: int) -> Iterator[Batch]:
    """Yield the header of each batch in [start, end); its `position` is the batch's byte in the file.

    The CRC is not checked: for bytes that were checked before. Raises CorruptSegment where no batch can be.
    """
    window = Window(read, end, HEADER_WINDOW_BYTES)
    position = start
    while position < end:
        try:
            batch = parse_header(window.view(position, BATCH_OVERHEAD), 0)
        except CorruptBatch as error:
            raise CorruptSegment(path, position, str(error)) from error
        if batch.size_bytes > end - position:
            raise CorruptSegment(path, position, f"batch of {batch.size_bytes} bytes ends beyond {end}")
        batch.position = position
        yield batch
        position += batch.size_bytes
