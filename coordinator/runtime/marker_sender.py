"""Writes the marker that ends a transaction to all its partitions, for as long as that takes.

A partition that cannot take its marker now, because its disk is full or fails, is tried again, together with
all others that failed. A deleted partition needs no marker, nor does one whose producer has a later epoch. A
partition that has seen a later coordinator epoch, in a log that Kafka wrote or by WriteTxnMarkers of a client,
gets a marker with a still later one: no other coordinator exists. After a restart the shards ask for unfinished
markers again.

A shard that failed and was loaded again asks again as well, here or at the node that leads it then. Its earlier
requests are dropped: a late marker of theirs would end the producer's next transaction, which in the classic
protocol has the same epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from coordinator.effects import MarkersWanted
from coordinator.purgatory.delayed import DeadlineHost
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker

log = structlog.get_logger("muster.transactions")

TRY_AGAIN_MS: Final = 1_000

NEEDS_NONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # Deleted with whatever was open there.
        ErrorCode.INVALID_PRODUCER_EPOCH,  # A later epoch has ended it already.
    }
)
"""Outcomes after which a partition needs no further attempt."""

Write = Callable[[Marker, str, int, OnDone], None]
"""Writes a marker to a partition, by topic and index, and calls back with the outcome once it is durable."""


LAST_EPOCH: Final = 2**31 - 1
"""The highest coordinator epoch; a partition that refuses this one as well is only tried again."""


@dataclass(slots=True)
class Sending:
    """One transaction whose markers are being written, and the number of partitions that lack theirs."""

    wanted: MarkersWanted
    done: Callable[[], None]
    is_wanted: Callable[[], bool]  # Whether the shard that asked still needs it: it may lead no more.
    partitions_left: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write the marker of one partition; `number` counts from 1."""

    sending: Sending
    marker: Marker
    topic: str
    index: int
    number: int = 1


class MarkerSender:
    """Writes markers and tries again on failure. All methods run on the event-loop thread."""

    def __init__(self, write: Write, timers: DeadlineHost, post: Callable[[Callable[[], None]], Any]) -> None:
        """`post(action)` calls `action` in a later turn of the loop."""
        self._write = write
        self._timers = timers
        self._post = post
        self._failed: list[Attempt] = []
        self._newest: dict[Any, Sending] = {}  # By `MarkersWanted.then`, which identifies the transaction.

    def write(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Call `done`, in a later turn, when the marker is on every partition that needs it.

        What is not wanted any more is given up, without a call.
        """
        sending = Sending(wanted, done, is_wanted, len(wanted.partitions))
        if not wanted.partitions:
            self._post(done)
            return
        self._newest[wanted.then] = sending
        for topic, index in wanted.partitions:
            self._send(Attempt(sending, wanted.marker, topic, index))

    def _send(self, attempt: Attempt) -> None:
        if not self._is_latest(attempt.sending):
            return
        if not attempt.sending.is_wanted():
            del self._newest[attempt.sending.wanted.then]
            return

        def on_written(error: ErrorCode) -> None:
            self._on_written(attempt, error)

        self._write(attempt.marker, attempt.topic, attempt.index, on_written)

    def _is_latest(self, sending: Sending) -> bool:
        """Whether this is the shard's latest request for its transaction."""
        return self._newest.get(sending.wanted.then) is sending

    def _on_written(self, attempt: Attempt, error: ErrorCode) -> None:
        if not self._is_latest(attempt.sending):
            return
        epoch = attempt.marker.coordinator_epoch
        if error in NEEDS_NONE:
            attempt.sending.partitions_left -= 1
            if not attempt.sending.partitions_left:
                del self._newest[attempt.sending.wanted.then]
                self._post(attempt.sending.done)
        elif error is ErrorCode.TRANSACTION_COORDINATOR_FENCED and epoch < LAST_EPOCH:
            later = replace(attempt.marker, coordinator_epoch=2 * epoch + 1)
            self._send(replace(attempt, marker=later))
        else:
            self._try_later(attempt, error)

    def _try_later(self, attempt: Attempt, error: ErrorCode) -> None:
        if attempt.number == 1:
            log.warning(
                "a marker has to wait", topic=attempt.topic, partition=attempt.index, error=error.name
            )
        if not self._failed:
            self._timers.set_timer(self, None, self._timers.now_ms() + TRY_AGAIN_MS)
        self._failed.append(replace(attempt, number=attempt.number + 1))

    def timer_fired(self, key: None) -> None:
        """Try all failed attempts again."""
        failed, self._failed = self._failed, []
        for attempt in failed:
            self._send(attempt)
