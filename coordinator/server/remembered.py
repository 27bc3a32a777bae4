"""The requests that a connection sent last, if their like can be handled without being decoded.

A member sends the same heartbeat again and again: equal bytes, but for the correlation id. So those that come are
compared with those that came, and the API's own `Repeat` says what to answer now. Others come again with other
numbers, as commits do with other offsets: the API's own `Again` finds them. This knows no groups, and nothing of
the order in which a connection answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.server.api_table import Again, Recaller, Repeat

if TYPE_CHECKING:
    from coordinator.server.pending import Pending

HEAD_BYTES = 8  # Size, API key, version: what comes before the correlation id.
REST_AT = 12


class Remembered:
    """One request; `head` and `rest` are its bytes on both sides of the correlation id."""

    __slots__ = ("head", "repeat", "rest", "size_bytes")

    def __init__(self, frame: bytes, repeat: Repeat) -> None:
        """`frame` begins with its size; `repeat` answers it by the time."""
        self.head, self.rest = frame[:HEAD_BYTES], frame[REST_AT:]
        self.repeat = repeat
        self.size_bytes = len(frame)

    def is_at(self, data: bytes | bytearray, position: int) -> bool:
        """Whether its like comes next in `data`, as a whole."""
        return data.startswith(self.rest, position + REST_AT) and data.startswith(self.head, position)

    def answer_all(self, data: bytes | bytearray, position: int, now_ms: int) -> tuple[list[bytes], int]:
        """Answer what is like it from `position` on; the answers in pieces, and where those requests end."""
        pieces: list[bytes] = []
        while self.is_at(data, position):
            before, after = self.repeat(now_ms)
            pieces += (before, bytes(data[position + HEAD_BYTES : position + REST_AT]), after)
            position += self.size_bytes
        return pieces, position


class Recalled:
    """The request of which others differ in their numbers alone."""

    __slots__ = ("_again", "_frame_bytes")

    def __init__(self) -> None:
        self._again: Again | None = None
        self._frame_bytes = 0  # Of the request that was met last.

    def numbers_in(
        self, data: bytes | bytearray, start: int, stop: int, now_ms: int
    ) -> tuple[int, ...] | None:
        """Those of the frame `data[start:stop]`, if it is the like of what was learned, and may come now."""
        again = self._again
        if again is None or (numbers := again.numbers_in(data, start, stop)) is None:
            return None
        return numbers if again.may_come(now_ms) else None

    def handle(self, numbers: tuple[int, ...], pending: Pending) -> None:
        """Handle the request that has these."""
        assert self._again is not None
        self._again.handle(numbers, pending)

    def learn(self, recaller: Recaller, request: Any, version: int, frame: bytes) -> None:
        """`request` came in `frame` and was decoded.

        To learn takes longer than to decode, so it begins with the second of a size: many clients commit once.
        """
        is_second = len(frame) == self._frame_bytes
        self._frame_bytes = len(frame)
        self._again = recaller(request, version, frame) if is_second else None


def _nothing_to_repeat(now_ms: int) -> tuple[bytes, bytes]:
    raise AssertionError("no request begins like this")


NOTHING_REMEMBERED = Remembered(b"a size that no frame has", _nothing_to_repeat)
