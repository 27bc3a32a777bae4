"""The answers that one client waits for, in the order of its requests: the broker's, and those made here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.gateway.stream import Stream, Verdict
from protocol.codec.primitives import Buffer
from protocol.errors import DecodeError

UNANSWERED_MAX: Final = 128
"""Requests of a connection that may be unanswered; the next ones wait."""
ANSWER_BYTES_MAX: Final = 1 << 26
"""Of an answer that is rewritten: the metadata of 100,000 partitions have ten megabytes."""


@dataclass(slots=True)
class Expected:
    """An answer that the client waits for: ready here, or the broker's, which is rewritten or passes."""

    ready: bytes | None = None
    rewrite: Callable[[bytes], bytes] | None = None


class Answers:
    """Takes what a broker sends; `to_client` is called with what the client gets of it."""

    def __init__(self, to_client: Callable[[Buffer], None], on_room: Callable[[], None]) -> None:
        """`on_room` is called when another request may be unanswered again."""
        self._to_client = to_client
        self._on_room = on_room
        self._expected: deque[Expected] = deque()
        self._ready_bytes = 0
        self._stream = Stream(self._judge, to_client, self._on_whole, self._on_passed)

    @property
    def is_full(self) -> bool:
        """Whether no further request may be unanswered."""
        return len(self._expected) >= UNANSWERED_MAX

    @property
    def are_awaited(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._expected)

    @property
    def held_bytes(self) -> int:
        """How much is held of answers that are not whole, or whose turn it is not."""
        return self._stream.kept_bytes + self._ready_bytes

    def expect(self, rewrite: Callable[[bytes], bytes] | None = None) -> None:
        """The broker will answer; `rewrite` makes the client's answer, with its size, of its without."""
        self._expected.append(Expected(rewrite=rewrite))

    def add(self, ready: bytes) -> None:
        """Send an answer once those before it are sent."""
        self._expected.append(Expected(ready=ready))
        self._ready_bytes += len(ready)
        self._send_ready()

    def feed(self, data: bytes) -> None:
        """What the broker sends. Raises DecodeError or EncodeError for what makes no sense."""
        self._stream.feed(data)

    def end(self) -> None:
        """Pass nothing on any more."""
        self._stream.is_over = True

    def _judge(self, data: Buffer, start: int, stop: int) -> Verdict:
        if not self._expected:
            raise DecodeError("an answer to nothing")
        if self._expected[0].rewrite is None:
            return Verdict.PASS_ON
        if stop - start > ANSWER_BYTES_MAX:
            raise DecodeError(f"an answer of {stop - start} bytes")
        return Verdict.KEEP

    def _on_whole(self, frame: bytes) -> None:
        rewrite = self._expected[0].rewrite
        assert rewrite is not None
        self._to_client(rewrite(frame))
        self._on_passed()

    def _on_passed(self) -> None:
        """The broker's next answer has gone to the client: so may those behind it that are ready."""
        was_full = self.is_full
        self._expected.popleft()
        self._send_ready()
        if was_full:
            self._on_room()

    def _send_ready(self) -> None:
        while self._expected and (ready := self._expected[0].ready) is not None:
            self._expected.popleft()
            self._ready_bytes -= len(ready)
            self._to_client(ready)
