"""Has the end of each transaction written to all its partitions, for as long as that takes.

A partition that cannot take its marker now, because its disk is full or has its moods, is tried again; all
those together once in a while. One that is gone needs none, nor does one whose producer has moved on. After a
restart the shards ask anew for what was not finished. Knows no shard and no log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from coordinator.effects import MarkersWanted
from protocol.control_records import Marker
from protocol.errors import ErrorCode

log = structlog.get_logger("muster.transactions")

TRY_AGAIN_MS: Final = 1_000

NEEDS_NONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # Deleted with whatever was open there.
        ErrorCode.INVALID_PRODUCER_EPOCH,  # A later epoch has ended it already.
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,  # As another coordinator has, in a log that Kafka wrote.
    }
)
"""With these a partition is done."""

Write = Callable[[Marker, str, int, Callable[[ErrorCode], None]], None]
"""Writes a marker to one partition, and tells the outcome when it is durable."""


class Timers(Protocol):
    """What sets deadlines: `key[0].timer_fired(*key[1:])` is called."""

    def now_ms(self) -> int: ...
    def set_timer(self, key: tuple[Any, ...], deadline_ms: int | None) -> None: ...


@dataclass(slots=True)
class Sending:
    """One transaction that is being ended, and how many partitions it still waits for."""

    wanted: MarkersWanted
    done: Callable[[], None]
    left: int


class MarkerSender:
    """All methods run on the event-loop thread."""

    def __init__(self, write: Write, timers: Timers, post: Callable[[Callable[[], None]], Any]) -> None:
        """`post` calls something in a later turn of the loop."""
        self._write = write
        self._timers = timers
        self._post = post
        self._failed: list[tuple[Sending, str, int]] = []

    def write(self, wanted: MarkersWanted, done: Callable[[], None]) -> None:
        """Tell `done`, in a later turn, when the marker is on every partition that needs it."""
        sending = Sending(wanted, done, len(wanted.partitions))
        if not wanted.partitions:
            self._post(done)
        for topic, index in wanted.partitions:
            self._begin(sending, topic, index)

    def _begin(self, sending: Sending, topic: str, index: int) -> None:
        def on_written(error: ErrorCode) -> None:
            self._on_written(sending, topic, index, error)

        self._write(sending.wanted.marker, topic, index, on_written)

    def _on_written(self, sending: Sending, topic: str, index: int, error: ErrorCode) -> None:
        if error in NEEDS_NONE:
            sending.left -= 1
            if not sending.left:
                self._post(sending.done)
            return
        log.warning("a marker has to wait", topic=topic, partition=index, error=error.name)
        if not self._failed:
            self._timers.set_timer((self,), self._timers.now_ms() + TRY_AGAIN_MS)
        self._failed.append((sending, topic, index))

    def timer_fired(self) -> None:
        """Try again what failed."""
        failed, self._failed = self._failed, []
        for each in failed:
            self._begin(*each)
