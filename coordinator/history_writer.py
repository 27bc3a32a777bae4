"""Writes what happened to groups to the topic `__group_events`, behind everybody's back.

Events are queued in `History` while a turn's requests are handled and written after it, so no reply
waits for them. What a storm loses is counted and told in the log, never silent.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from coordinator.groups.effects import GroupEvent
from coordinator.history import Drained, History, encode_event
from coordinator.topics.partition import Partition
from protocol.errors import ErrorCode
from protocol.records import Record, encode_batch

log = structlog.get_logger("muster.history")

EVENTS_PER_WRITE = 500
"""Events written in one go, some 200 KB as a rule: a slice of a few milliseconds."""

MAX_BATCH_BYTES = 500_000
"""Where a batch is cut: group ids are as long as clients like, and a batch must fit into the topic's."""


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
        self._history.record(events)
        self._maybe_write()

    def close(self) -> None:
        """Append all that is queued, to be flushed by whoever closes the log. Nothing may be recorded after."""
        while self._history.queued:
            for batch in _batches(self._take()):
                self._partition.append_local(batch)

    def _maybe_write(self) -> None:
        if not self._is_busy and self._history.queued:
            self._is_busy = True
            self._call_soon(self._write)

    def _write(self) -> None:
        if not self._history.queued:  # Closed meanwhile.
            return
        *batches, last = _batches(self._take())
        for batch in batches:
            self._partition.append_local(batch)
        self._partition.append_local(last, self._on_written)

    def _take(self) -> Drained:
        drained = self._history.take(EVENTS_PER_WRITE)
        if drained.dropped:
            log.warning("history events were dropped", dropped=drained.dropped)
        return drained

    def _on_written(self, error: ErrorCode) -> None:
        """One write at a time: what the disk cannot take piles up in the bounded queue, not in the log."""
        self._is_busy = False
        if error and not self._is_losing:  # Told once, however long it lasts.
            log.error("history events are being lost", error=error.name)
        self._is_losing = bool(error)
        self._maybe_write()


def _batches(drained: Drained) -> list[bytearray]:
    """The events in batches of bounded size; at least one, for there is at least one event."""
    cuts: list[list[Record]] = [[]]
    size_bytes = 0
    for event in drained.events:
        record = Record(*encode_event(event), timestamp_ms=event.wall_ms)
        record_bytes = len(record.key or b"") + len(record.value or b"")
        if cuts[-1] and size_bytes + record_bytes > MAX_BATCH_BYTES:
            cuts.append([])
            size_bytes = 0
        cuts[-1].append(record)
        size_bytes += record_bytes
    return [encode_batch(records) for records in cuts]
