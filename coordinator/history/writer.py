"""Writes what happened to groups to the topic `__group_events`, off the request path.

Events are queued in `History` while a turn's requests are handled and written after it, so no reply
waits for them. Events that a full queue or a failed disk loses are counted, in the daemon's log and on the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog

from coordinator.effects import GroupEvent, HistoryRow
from coordinator.history.client_metrics import Latest, with_client_metrics
from coordinator.history.events import History, encode_event
from protocol.errors import ErrorCode
from protocol.records.records import Record, encode_batch

log = structlog.get_logger("muster.history")

EVENTS_PER_WRITE = 200
"""Most events in one write, some 150 KB as a rule: 3 to 4 ms in which the loop does nothing else."""

WRITE_BYTES = 500_000
"""Bytes at which a write is cut even if it has fewer events: group ids may be long, and a batch must fit."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """A record batch of events; if it cannot be written, `count` events are lost, the first one of `wall_ms`."""

    data: bytearray
    count: int
    wall_ms: int


class EventLog(Protocol):
    """What events are appended to."""

    def append_local(self, data: bytearray, done: Callable[[ErrorCode], None] | None = None, /) -> None:
        """Append a batch; `done` is called when it is kept, or with the error that keeps it from that."""


L = TypeVar("L", bound=EventLog)


class HistoryWriter(Generic[L]):
    """Records events in `History` and writes them to a partition; all on the event-loop thread.

    `latest` is set where clients push metrics: returns what a member's client said lately.
    """

    latest: Latest | None = None

    def __init__(
        self,
        history: History,
        partition: L,
        call_soon: Callable[[Callable[[], None]], object],
        on_event: Callable[[GroupEvent], None] = lambda event: None,
    ):
        """`on_event` is called with each event, in the order of the topic, before it is written."""
        self._on_event = on_event
        self.history = history
        self.partition = partition
        self._call_soon = call_soon
        self._is_busy = False
        self._is_losing = False

    def record(self, rows: tuple[HistoryRow, ...]) -> None:
        """Record `rows`, and have them written after this turn's requests have been handled."""
        if self.latest is not None:
            latest = self.latest
            rows = tuple(with_client_metrics(row, latest) for row in rows)
        was_dropping = self.history.is_dropping
        self.history.record(rows)
        if self.history.is_dropping and not was_dropping:
            log.warning("history events are being dropped", queued=self.history.queued)
        self._maybe_write()

    def close(self) -> None:
        """Append all queued events; closing the log flushes them. Nothing may be recorded afterwards."""
        while batch := self._next_batch():
            self.partition.append_local(batch.data)

    def _maybe_write(self) -> None:
        """Write if events are queued; a gap alone is not written: each failure would make a new gap, for ever."""
        if not self._is_busy and self.history.queued:
            self._is_busy = True
            self._call_soon(self._write)

    def _write(self) -> None:
        if batch := self._next_batch():  # None after `close`.
            self.partition.append_local(batch.data, partial(self._on_written, batch))

    def _on_written(self, batch: EventBatch, error: ErrorCode) -> None:
        """Count the events of a failed write as lost, and begin the next write: there is one at a time.

        Events that the disk is too slow for pile up in the bounded queue, not in the log.
        """
        if error:
            if not self._is_losing:  # Logged once, however long the failure lasts; the topic gets every loss.
                log.error("history events are being lost", error=error.name)
            self.history.count_lost(batch.count, batch.wall_ms)
        self._is_losing = bool(error)
        self._is_busy = False
        self._maybe_write()

    def _next_batch(self) -> EventBatch | None:
        """Return the oldest queued events, as many as one write takes; None if there are none."""
        events: list[GroupEvent] = []
        records: list[Record] = []
        size_bytes = 0
        while len(records) < EVENTS_PER_WRITE and size_bytes < WRITE_BYTES:
            drained = self.history.take(1)
            if not drained.events:
                break
            events += drained.events
            for event in drained.events:
                self._on_event(event)
                key, value = encode_event(event)
                records.append(Record(key, value, timestamp_ms=event.wall_ms))
                size_bytes += len(key) + len(value)
        return _encode_batch(events, records) if events else None


def _encode_batch(events: list[GroupEvent], records: list[Record]) -> EventBatch:
    dropped = sum(event.dropped_count for event in events)
    if dropped:
        log.warning("history events were dropped", dropped=dropped)
    return EventBatch(
        encode_batch(records), sum(event.dropped_count or 1 for event in events), events[0].wall_ms
    )
