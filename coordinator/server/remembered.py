"""The request that a connection sent last, if its like can be answered without being decoded.

A member sends the same heartbeat again and again: equal bytes, but for the correlation id. So those that come are
compared with those that came, and the API's own `Repeat` says what to answer now. This knows no groups, and
nothing of the order in which a connection answers.
"""

from __future__ import annotations

from coordinator.server.api_table import Repeat

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


def _nothing_to_repeat(now_ms: int) -> tuple[bytes, bytes]:
    raise AssertionError("no request begins like this")


NOTHING_REMEMBERED = Remembered(b"a size that no frame has", _nothing_to_repeat)
