"""Bytes received on one connection that are no request yet: a part of a frame, or requests that have to wait.

It asks the pool for the memory of a large frame, and leaves the socket unread until it has it. Then the rest of
the frame is read into a buffer of its own (`large_frame.py`). Knows neither requests nor their order.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeAlias, cast

from coordinator.server.large_frame import LARGE_FRAME_SHARE, LARGE_FROM_BYTES, LargeFrame
from coordinator.server.memory_pool import MemoryPool

Frames: TypeAlias = bytes | bytearray
"""Received bytes; a bytearray is one large frame, which no other object refers to."""

MAX_PIECES: Final = 64
"""Pieces of a frame kept before they are joined: a frame sent byte by byte would cost forty times as much."""


class FrameConsumer(Protocol):
    """The connection whose bytes are gathered. It is the transport's `asyncio.Protocol` as well."""

    last_request_ms: int
    is_held_back: bool
    is_open: bool

    @property
    def waits_for_disk(self) -> bool:
        """Whether received bytes are held back by requests that all wait for the disk."""

    def consume(self, data: Frames) -> None:
        """Start the requests in `data`."""

    def cut_off(self, reason: str) -> None:
        """Close the connection at once, with `reason` in the log."""


class Gathering:
    """The received bytes of the connection `owner` that are no request yet; the `Holder` that the pool counts."""

    __slots__ = (
        "_awaits_memory",
        "_bytes",
        "_large_frame",
        "_owner",
        "_pool",
        "_protocol",
        "_start_threshold_bytes",
        "_transport",
        "_whole_bytes",
        "pieces",
    )

    def __init__(self, owner: FrameConsumer, transport: asyncio.Transport, pool: MemoryPool) -> None:
        self._owner = owner
        self._protocol = cast(asyncio.Protocol, owner)  # A typing.Protocol cannot say both.
        self._transport = transport
        self._pool = pool
        self.pieces: list[Frames] = []
        self._bytes = 0
        self._start_threshold_bytes = 0  # Bytes that must have been received before a request can start.
        self._awaits_memory = False  # Whether a large frame, begun in `pieces`, is not admitted yet.
        # Receives instead of the owner until a large frame is complete.
        self._large_frame: LargeFrame | None = None
        # Size of a large frame that is whole but not started; it is counted as a frame.
        self._whole_bytes = 0

    def begin(self, data: Frames, needed_bytes: int) -> None:
        """Keep `data`: no request in it can start before `needed_bytes` have been received."""
        self.pieces.append(data)
        self._bytes = len(data)
        self._start_threshold_bytes = needed_bytes
        self._keep()

    def add(self, data: Frames) -> bool:
        """Add received bytes; return True if a request in them may start."""
        self.pieces.append(data)
        self._bytes += len(data)
        if not self._owner.is_held_back and self._bytes >= self._start_threshold_bytes:
            return True
        if len(self.pieces) >= MAX_PIECES:
            self.pieces[:] = [b"".join(self.pieces)]
        self._keep()
        return False

    def take(self) -> Frames:
        """Remove and return all received bytes, joined."""
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        self._bytes = 0
        self._pool.keep(self, 0)
        self._release_frame()
        return data

    def stop(self) -> None:
        """Drop the received bytes, after the connection was lost."""
        self.pieces.clear()
        self._large_frame = None  # A cycle through the owner; garbage collections are rare.
        self._pool.forget(self)

    def _keep(self) -> None:
        """Count the received bytes in the pool, or close if it is full; claim the memory of a large frame."""
        if not self._pool.keep(self, self._bytes - self._whole_bytes):
            self.give_way("memory for requests is used up")
            return
        is_large = self._start_threshold_bytes > LARGE_FROM_BYTES <= self._bytes * LARGE_FRAME_SHARE
        if not is_large or self._awaits_memory or self._owner.is_held_back:
            return
        if self._pool.claim(self, self._start_threshold_bytes):
            self._receive_large_frame()
        else:
            self._awaits_memory = True
            self._transport.pause_reading()

    def _receive_large_frame(self) -> None:
        """Have the rest of the large frame received into a buffer of its own."""
        self._large_frame = LargeFrame(
            self._protocol, bytes(self.take()), self._start_threshold_bytes, self._on_large_frame_complete
        )
        self._transport.set_protocol(self._large_frame)

    def _on_large_frame_complete(self, frame: bytearray) -> None:
        """Make the owner the receiver again, and hand it the complete large frame.

        It keeps its memory while it has to wait, for a later turn or for requests before it.
        """
        self._large_frame = None
        self._whole_bytes = len(frame)
        if self._owner.is_open:
            self._transport.set_protocol(self._protocol)
            self._owner.consume(frame)
        if not self.pieces:
            self._release_frame()

    def _release_frame(self) -> None:
        if self._whole_bytes:
            self._whole_bytes = 0
            self._pool.on_frame_complete(self)

    # What the pool asks.

    @property
    def last_request_ms(self) -> int:
        return self._owner.last_request_ms

    @property
    def received_bytes(self) -> int:
        """Number of received bytes that have not become a request."""
        return self._bytes if self._large_frame is None else self._large_frame.received_bytes

    @property
    def waits_for_answers(self) -> bool:
        """Whether the received bytes wait for earlier requests of the same connection, which wait for the disk."""
        return self._owner.waits_for_disk

    def on_admitted(self) -> None:
        """Receive the rest of the large frame, for which the pool has memory now."""
        self._awaits_memory = False
        if self._owner.is_open:
            self._receive_large_frame()
            if not self._owner.is_held_back:
                self._transport.resume_reading()

    def give_way(self, reason: str) -> None:
        """Close at once: other connections wait for the memory that this one holds."""
        self._owner.cut_off(reason)
