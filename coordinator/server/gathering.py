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
"""What was received; a bytearray is one large frame, and no other object has it."""

MAX_PIECES: Final = 64
"""Pieces of a frame that are kept before they are joined: sent byte by byte, it would cost forty times as much."""


class FrameConsumer(Protocol):
    """The connection whose bytes are gathered. It is the transport's `asyncio.Protocol` as well."""

    last_request_ms: int
    is_held_back: bool
    is_open: bool

    @property
    def waits_for_disk(self) -> bool:
        """Whether what was received waits for requests that wait for the disk, not for other requests."""

    def consume(self, data: Frames) -> None:
        """Start the requests in `data`."""

    def cut_off(self, reason: str) -> None:
        """Close at once."""


class Gathering:
    """The received bytes of `owner`, as the pool's `Holder`."""

    __slots__ = (
        "_awaits_memory",
        "_bytes",
        "_large",
        "_needed_bytes",
        "_owner",
        "_pool",
        "_protocol",
        "_transport",
        "pieces",
    )

    def __init__(self, owner: FrameConsumer, transport: asyncio.Transport, pool: MemoryPool) -> None:
        self._owner = owner
        self._protocol = cast(asyncio.Protocol, owner)  # A typing.Protocol cannot say both.
        self._transport = transport
        self._pool = pool
        self.pieces: list[Frames] = []
        self._bytes = 0
        self._needed_bytes = 0  # Bytes that must have come before a request can begin.
        self._awaits_memory = False  # For a large frame whose first bytes are in the pieces.
        self._large: LargeFrame | None = None  # Receives instead of the owner until a large frame is whole.

    def begin(self, data: Frames, needed_bytes: int) -> None:
        """Hold `data` back: no request in it can start before `needed_bytes` of it are there."""
        self.pieces.append(data)
        self._bytes = len(data)
        self._needed_bytes = needed_bytes
        self._keep()

    def add(self, data: Frames) -> bool:
        """Add what was received; True if requests may begin in it."""
        self.pieces.append(data)
        self._bytes += len(data)
        if not self._owner.is_held_back and self._bytes >= self._needed_bytes:
            return True
        if len(self.pieces) >= MAX_PIECES:
            self.pieces[:] = [b"".join(self.pieces)]
        self._keep()
        return False

    def take(self) -> Frames:
        """Take all that was received, as one."""
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        self._bytes = 0
        self._pool.keep(self, 0)
        return data

    def stop(self) -> None:
        """Drop what was received: the connection is gone."""
        self.pieces.clear()
        self._large = None  # It refers to the owner, and garbage collections are rare.
        self._pool.forget(self)

    def _keep(self) -> None:
        """Count what was received in the pool, or close; claim the memory of a large frame."""
        if not self._pool.keep(self, self._bytes):
            self.give_way("memory for requests is used up")
            return
        is_large = self._needed_bytes > LARGE_FROM_BYTES <= self._bytes * LARGE_FRAME_SHARE
        if not is_large or self._awaits_memory or self._owner.is_held_back:
            return
        if self._pool.claim(self, self._needed_bytes):
            self._take_large()
        else:
            self._awaits_memory = True
            self._transport.pause_reading()

    def _take_large(self) -> None:
        """Have the rest of a large frame read into a buffer of its own."""
        self._large = LargeFrame(self._protocol, bytes(self.take()), self._needed_bytes, self._on_large)
        self._transport.set_protocol(self._large)

    def _on_large(self, frame: bytearray) -> None:
        """A large frame is whole: the owner receives again."""
        self._large = None
        if self._owner.is_open:
            self._transport.set_protocol(self._protocol)
            self._owner.consume(frame)
        self._pool.on_whole(self)

    # What the pool asks.

    @property
    def last_request_ms(self) -> int:
        return self._owner.last_request_ms

    @property
    def received_bytes(self) -> int:
        """Size of what was received and has not become a request."""
        return self._bytes if self._large is None else self._large.received_bytes

    @property
    def waits_for_answers(self) -> bool:
        """Whether all of this waits for earlier requests of the same peer, which wait for the disk."""
        return self._owner.waits_for_disk

    def on_memory(self) -> None:
        """The pool has the memory that a large frame waits for."""
        self._awaits_memory = False
        if self._owner.is_open:
            self._take_large()
            if not self._owner.is_held_back:
                self._transport.resume_reading()

    def give_way(self, reason: str) -> None:
        """Close at once: other connections wait for the memory that this one holds."""
        self._owner.cut_off(reason)
