"""The answers on their way out on one connection: bytes, and ranges of files that are read when there is room.

An answer to Fetch may be fifty megabytes of a segment. It is sent by the piece: the next is read from the page
cache when the socket has taken the one before, on a thread if the disk would have to be waited for. So a
reader that does not read holds one piece, however much it asked for; and where very many are slow the
pieces of the next ones are small. Everything else goes out as it came. Knows no requests.

Why a read and a write: sendfile and a memory map take half of their CPU (`bench.sending`: 0.1 ms/MB against
0.2), but both wait for a cold disk on the event loop, and a map of a file that was cut short kills the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar, cast

import structlog

from protocol.codec.primitives import Buffer
from storage.files import Chunk, StorageError
from storage.log.file_range import FileRange

log = structlog.get_logger("muster.connection")

PIECE_BYTES: Final = 1 << 18
"""Bytes read and written at a time: the copy takes under 0.1 ms. Twice the size of the socket's buffer."""

SMALL_PIECE_BYTES: Final = 1 << 14
SLOW_READERS_BYTES: Final = 32 << 20
"""Bytes that all slow readers together may hold in pieces of full size; beyond it pieces are small."""

UNREAD_BYTES: Final = 128 << 20
"""Unread answers of all connections; beyond it the connection that has waited longest is cut off."""

MAX_BUFFERS: Final = 512  # Buffers of one write: the system takes 1024.


T = TypeVar("T")


class Readers(Protocol):
    """The threads that read from files, which may wait for the disk."""

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None: ...


class SlowReaders:
    """The connections whose peers do not read their answers, and the bytes that they hold; one for the server."""

    def __init__(self, unread_bytes_max: int = UNREAD_BYTES) -> None:
        self._waiting: set[asyncio.WriteTransport] = set()
        self._unread: dict[asyncio.WriteTransport, int] = {}  # The one that has waited longest comes first.
        self._unread_bytes = 0
        self._unread_bytes_max = unread_bytes_max

    @property
    def count(self) -> int:
        return len(self._waiting)

    @property
    def piece_bytes(self) -> int:
        is_many = self.count * PIECE_BYTES >= SLOW_READERS_BYTES
        return SMALL_PIECE_BYTES if is_many else PIECE_BYTES

    def add(self, transport: asyncio.WriteTransport) -> None:
        """Count a connection whose peer does not read, or count it again after its unread bytes have grown.

        Small pieces are not counted: every slow reader of a log has one.
        """
        held_bytes = transport.get_write_buffer_size()
        self._waiting.add(transport)
        if held_bytes <= SMALL_PIECE_BYTES:
            return
        self._unread_bytes += held_bytes - self._unread.get(transport, 0)
        self._unread[transport] = held_bytes
        while self._unread_bytes > self._unread_bytes_max and len(self._unread) > 1:
            self._cut_off_longest()

    def remove(self, transport: asyncio.WriteTransport) -> None:
        """Stop counting a connection: its peer has read everything, or is gone."""
        self._waiting.discard(transport)
        self._unread_bytes -= self._unread.pop(transport, 0)

    def _cut_off_longest(self) -> None:
        transport = next(iter(self._unread))
        log.warning(
            "connection cut off: it does not read its answers, and there are too many like it",
            peer=transport.get_extra_info("peername"),
            unread_bytes=self._unread[transport],
            unread_bytes_of_all=self._unread_bytes,
        )
        self.remove(transport)
        transport.abort()


class Outgoing:
    """The answers of one connection; `sent` is called when all are handed over, `failed` when a read failed."""

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        readers: Readers,
        slow: SlowReaders,
        sent: Callable[[], None],
        failed: Callable[[StorageError], None],
    ) -> None:
        self._transport = transport
        self._readers = readers
        self._slow = slow
        self._sent = sent
        self._failed = failed
        self.queue: deque[Buffer | FileRange] = deque()  # What is not handed to the transport yet.
        self._position = 0  # Where the next piece begins in the range that is first in the queue.
        self._is_reading = False
        self._is_paused = False
        self._is_over = False

    @property
    def is_idle(self) -> bool:
        """Whether the queue is empty: everything was handed to the transport."""
        return not self.queue

    def send(self, chunks: Iterable[Any]) -> None:
        """Queue an answer that has file ranges, or follows one that has."""
        self.queue += chunks
        self.pump()

    def pump(self) -> None:
        """Hand queued answers to the transport until the peer takes no more or a read has to wait."""
        while self.queue and not (self._is_paused or self._is_reading or self._is_over):
            self._hand_over_next()
        if not (self.queue or self._is_over):
            self._sent()

    def _hand_over_next(self) -> None:
        """Write, in one write, the bytes up to the next file range and the first piece of that range."""
        buffers: list[Buffer] = []
        queue = self.queue
        while queue and not isinstance(first := queue[0], FileRange) and len(buffers) < MAX_BUFFERS:
            buffers.append(first)
            queue.popleft()
        if queue and isinstance(first := queue[0], FileRange):
            length = min(first.length - self._position, self._slow.piece_bytes)
            try:
                piece = first.read_nowait(self._position, length)
            except StorageError as error:
                self._fail(error)
                return
            if piece is None:
                self._read_on_thread(first, length)
            else:
                buffers.append(piece)
                self._advance(length)
        if buffers:
            self._transport.writelines(buffers)

    def _advance(self, length: int) -> None:
        """Count `length` bytes of the first range as sent; drop the range when all of it is."""
        self._position += length
        if self._position == len(self.queue[0]):
            self.queue.popleft()
            self._position = 0

    def _read_on_thread(self, source: FileRange, length: int) -> None:
        position = self._position
        self._is_reading = True
        self._readers.submit(lambda: source.read(position, length), self._on_read)

    def _on_read(self, read: Future[Chunk]) -> None:
        self._is_reading = False
        if self._is_over:
            return
        try:
            piece = read.result()
        except StorageError as error:
            self._fail(error)
            return
        self._advance(len(piece))
        self._transport.write(piece)
        self.pump()

    def _fail(self, error: StorageError) -> None:
        self.stop()
        self._failed(error)

    def pause(self) -> None:
        """Hand over nothing until `resume`: the peer has not taken the last piece."""
        if not self._is_paused:
            self._is_paused = True
            self._slow.add(self._transport)

    def on_more_written(self) -> None:
        """Count again the bytes that a peer has not read, after more was written to it."""
        if self._is_paused:
            self._slow.add(self._transport)

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._slow.remove(self._transport)
            if self.queue:
                self.pump()

    def stop(self) -> None:
        """Drop the queue, after the connection was lost."""
        self._is_over = True
        self.queue.clear()
        if self._is_paused:
            self._is_paused = False
            self._slow.remove(self._transport)


def joined(chunks: list[Buffer | FileRange]) -> bytes | None:
    """Return the bytes of an answer, or None if it has file ranges. A failing `join` finds these the fastest."""
    try:
        return b"".join(cast(list[Buffer], chunks))
    except TypeError:
        return None
