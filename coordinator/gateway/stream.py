"""One direction of a connection through the gateway, cut into frames: each is passed on as it comes, or kept.

Of a frame that is passed on no byte is copied or waits for the others, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from protocol.codec.primitives import Buffer
from protocol.errors import DecodeError
from protocol.framing import SIZE


class Verdict(Enum):
    """What is done with a frame whose first bytes are there."""

    PASS_ON = auto()
    KEEP = auto()
    """Until it is whole."""
    MORE = auto()
    """Its first bytes do not say it yet."""
    WAIT = auto()
    """Neither it nor what follows is looked at until `Stream.go_on`."""


Judge = Callable[[Buffer, int, int], Verdict]
"""Takes bytes, where in them a frame begins behind its size, and where it ends, there or beyond."""


class Stream:
    """Bytes in, frames out: to `pass_on` piece by piece, or to `whole` without their sizes."""

    def __init__(
        self,
        judge: Judge,
        pass_on: Callable[[Buffer], None],
        whole: Callable[[bytes], None],
        ended: Callable[[], None] = lambda: None,
        max_frame_bytes: int = 1 << 30,
    ) -> None:
        """`ended` is called behind each frame that was passed on."""
        self._judge = judge
        self._pass_on = pass_on
        self._whole = whole
        self._ended = ended
        self._max_frame_bytes = max_frame_bytes
        self._left_bytes = 0  # Of a frame that is being passed on.
        self._kept = bytearray()
        self._needed_bytes = 0  # Of what is kept, before it is looked at again.
        self._is_waiting = False
        self.is_over = False
        """Set by who wants to be called no more."""

    @property
    def is_amid_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._left_bytes or self._kept)

    @property
    def kept_bytes(self) -> int:
        """How much is kept here."""
        return len(self._kept)

    def feed(self, data: bytes) -> None:
        """Take received bytes. Raises DecodeError for a frame that cannot be one."""
        if self.is_over:
            return
        if self._kept or self._is_waiting:
            self._kept += data
            if self._is_waiting or len(self._kept) < self._needed_bytes:
                return
            data = bytes(self._kept)
            self._kept.clear()
        position = 0
        if self._left_bytes:
            position = self._go_on_passing(data)
        while position < len(data) and not self.is_over:
            after = self._frame(data, position)
            if after is None:
                self._kept += memoryview(data)[position:]
                return
            position = after

    def go_on(self) -> None:
        """Look at what has waited."""
        if self._is_waiting:
            self._is_waiting = False
            self._needed_bytes = 0
            self.feed(b"")

    def _go_on_passing(self, data: bytes) -> int:
        if self._left_bytes >= len(data):
            position = len(data)
            self._pass_on(data)
        else:
            position = self._left_bytes
            self._pass_on(memoryview(data)[:position])
        self._left_bytes -= position
        if not self._left_bytes:
            self._ended()
        return position

    def _frame(self, data: bytes, position: int) -> int | None:
        """Begin with the frame at `position`; return where in `data` to go on, None if more has to come first."""
        start = position + SIZE.size
        if start > len(data):
            self._needed_bytes = SIZE.size
            return None
        (size,) = SIZE.unpack_from(data, position)
        if not 0 <= size <= self._max_frame_bytes:
            raise DecodeError(f"frame of {size} bytes; allowed are 0 to {self._max_frame_bytes}")
        stop: int = start + size
        verdict = self._judge(data, start, stop)
        if verdict is Verdict.PASS_ON:
            end = min(stop, len(data))
            self._left_bytes = stop - end
            self._pass_on(data if end - position == len(data) else memoryview(data)[position:end])
            if not self._left_bytes:
                self._ended()
            return end
        if verdict is Verdict.KEEP and stop <= len(data):
            self._whole(data[start:stop])
            return stop
        self._is_waiting = verdict is Verdict.WAIT
        # First bytes are looked at anew when they have doubled: a peer may send them one by one.
        there = len(data) - position
        self._needed_bytes = stop - position if verdict is Verdict.KEEP else min(stop - position, 2 * there)
        return None
