"""One large request on its way in: read by the system straight into the buffer that it will be decoded from.

A connection is a plain protocol, which is handed what came in pieces and has to join them: right for many
small requests, and two copies of a large one. Until a large frame is complete, this receives in its place. The
buffer belongs to the request alone, so its handler may keep it, and write into it.

The buffer grows with what has arrived, so a peer does not get memory for a length that it only claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

GROWTH: Final = 4
"""Factor by which the buffer may exceed the bytes that have arrived."""

LARGE_FROM_BYTES: Final = 1 << 16
"""Frames up to this size are copied out of the received bytes; larger ones are decoded in place."""

LARGE_FRAME_SHARE: Final = 4
"""A frame counts as large once LARGE_FROM_BYTES divided by this were received: its length is only a claim."""

OnComplete = Callable[[bytearray], None]


class LargeFrame(asyncio.BufferedProtocol):
    """Receives the rest of a frame of `size_bytes` that begins with `received`, then calls `on_complete` with it.

    The transport's other calls are passed on to `owner`, in whose place this receives.
    """

    def __init__(
        self, owner: asyncio.Protocol, received: bytes, size_bytes: int, on_complete: OnComplete
    ) -> None:
        self._owner = owner
        self._size_bytes = size_bytes
        self._on_complete = on_complete
        self._buffer = bytearray(received)
        self._filled = len(received)
        self._view = memoryview(self._buffer)

    @property
    def received_bytes(self) -> int:
        return self._filled

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes, never beyond the frame: the next frame belongs to `owner`."""
        if self._filled == len(self._buffer):
            grown = bytearray(min(self._size_bytes, self._filled * GROWTH))
            grown[: self._filled] = self._buffer
            self._buffer, self._view = grown, memoryview(grown)
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled == self._size_bytes:
            self._on_complete(self._buffer)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)
