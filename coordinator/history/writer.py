"""Writes what happened to groups to the topic `__group_events`, off the request path.

Events are queued in `History` while a turn's requests are handled and written after it, so no reply
waits for them. What a storm or the disk loses is counted, and recorded in the daemon's log and on the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from coordinator.effects import GroupEvent
from coordinator.history.events import History, encode_event
from coordinator.topics.partition import Partition
from protocol.errors import ErrorCode
from protocol.records.records import Record, encode_batch

log = structlog.get_logger("muster.history")

EVENTS_PER_WRITE = 200
"""Events written in one go, some 150 KB as a rule: 3 to 4 ms in which the loop does nothing else."""

WRITE_BYTES = 500_000
"""Where a write is cut even if it has fewer: group ids are as long as clients like, and a batch must fit."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """A record batch of events; `count` of them are lost if it cannot be written, the first from `wall_ms`."""

    data: bytearray
    count: int
    wall_ms: int


class HistoryWriter:
    """Feeds `History` and drains it to a partition; all on the event-loop thread."""

    def __init__(
        self, history: History, partition: Partition, call_soon: Callable[[Callable[[], None]], object]
    ):
        self._history = history
        self._partition = partition
        self._call_soon = call_soon
        self._is_busy = False
        self._is_losing = False

    def record(self, events: tuple[GroupEvent, ...]) -> None:
        """Keep `events` and have them written once this turn's requests are through."""
        was_dropping = self._history.is_dropping
        self._history.record(events)
        if self._history.is_dropping and not was_dropping:
            log.warning("history events are being dropped", queued=self._history.queued)
        self._maybe_write()

    def close(self) -> None:
        """Append all that is queued, to be flushed when the log is closed. Nothing may be recorded after."""
        while batch := self._next_batch():
            self._partition.append_local(batch.data)

    def _maybe_write(self) -> None:
        """Write if events are queued; a gap alone would be written for ever to a disk that refuses all."""
        if not self._is_busy and self._history.queued:
            self._is_busy = True
            self._call_soon(self._write)

    def _write(self) -> None:
        if batch := self._next_batch():  # None after `close`.
            self._partition.append_local(batch.data, partial(self._on_written, batch))

    def _on_written(self, batch: EventBatch, error: ErrorCode) -> None:
        """One write at a time: what the disk cannot take piles up in the bounded queue, not in the log."""
        if error:
            if not self._is_losing:  # Logged once, however long it lasts; the topic has every loss.
                log.error("history events are being lost", error=error.name)
            self._history.count_lost(batch.count, batch.wall_ms)
        self._is_losing = bool(error)
        self._is_busy = False
        self._maybe_write()

    def _next_batch(self) -> EventBatch | None:
        """The oldest events of the queue, as many as one write takes; None if there are none."""
        events: list[GroupEvent] = []
        records: list[Record] = []
        size_bytes = 0
        while len(records) < EVENTS_PER_WRITE and size_bytes < WRITE_BYTES:
            drained = self._history.take(1)
            if not drained.events:
                break
            events += drained.events
            for event in drained.events:
                key, value = encode_event(event)
                records.append(Record(key, value, timestamp_ms=event.wall_ms))
                size_bytes += len(key) + len(value)
        return _batch(events, records) if events else None


def _batch(events: list[GroupEvent], records: list[Record]) -> EventBatch:
    dropped = sum(event.dropped_count for event in events)
    if dropped:
        log.warning("history events were dropped", dropped=dropped)
    return EventBatch(
        encode_batch(records), sum(event.dropped_count or 1 for event in events), events[0].wall_ms
    )
